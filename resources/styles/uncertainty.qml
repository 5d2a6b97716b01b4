<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology">
  <!-- greens and blues, so that nobody takes it for the map; values are shares of the density and the same for
       every run, so that runs compare. The three networks of an ordinary model cannot differ by more than
       1.41, and where nearly nothing is expected they always differ much: nothing is opaque, so that the map
       shows where it matters. White at the low end, because the legends of layouts leave out transparency -->
  <pipe>
    <provider>
      <resampling enabled="true" zoomedInResamplingMethod="bilinear" zoomedOutResamplingMethod="nearestNeighbour" maxOversampling="2"/>
    </provider>
    <rasterrenderer type="singlebandpseudocolor" band="1" alphaBand="-1" opacity="1" nodataColor="" classificationMin="0.25" classificationMax="1.4">
      <minMaxOrigin>
        <limits>None</limits>
        <extent>WholeRaster</extent>
        <statAccuracy>Estimated</statAccuracy>
      </minMaxOrigin>
      <rastershader>
        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" minimumValue="0.25" maximumValue="1.4" labelPrecision="2">
          <item value="0.25" label="0.25" alpha="0" color="#ffffff"/>
          <item value="0.5" label="0.5" alpha="35" color="#9fd3bd"/>
          <item value="0.8" label="0.8" alpha="60" color="#5fb3b3"/>
          <item value="1.1" label="1.1" alpha="80" color="#2a7f9e"/>
          <item value="1.4" label="1.4" alpha="100" color="#1d5584"/>
          <rampLegendSettings useContinuousLegend="0"/>
        </colorrampshader>
      </rastershader>
    </rasterrenderer>
    <brightnesscontrast brightness="0" contrast="0" gamma="1"/>
    <huesaturation saturation="0" grayscaleMode="0" colorizeOn="0" invertColors="0"/>
    <rasterresampler maxOversampling="2"/>
    <resamplingStage>provider</resamplingStage>
  </pipe>
  <blendMode>0</blendMode>
</qgis>
