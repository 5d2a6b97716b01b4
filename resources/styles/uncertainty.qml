<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology">
  <!-- greens and blues, so that nobody takes it for the map; values are shares of the density and the same for
       every run, so that runs compare. White at the low end, because the legends of layouts leave out
       transparency -->
  <pipe>
    <provider>
      <resampling enabled="true" zoomedInResamplingMethod="bilinear" zoomedOutResamplingMethod="nearestNeighbour" maxOversampling="2"/>
    </provider>
    <rasterrenderer type="singlebandpseudocolor" band="1" alphaBand="-1" opacity="1" nodataColor="" classificationMin="0.1" classificationMax="1">
      <minMaxOrigin>
        <limits>None</limits>
        <extent>WholeRaster</extent>
        <statAccuracy>Estimated</statAccuracy>
      </minMaxOrigin>
      <rastershader>
        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" minimumValue="0.1" maximumValue="1" labelPrecision="2">
          <item value="0.1" label="0.1" alpha="0" color="#ffffff"/>
          <item value="0.25" label="0.25" alpha="130" color="#b5dfca"/>
          <item value="0.5" label="0.5" alpha="190" color="#5fb3b3"/>
          <item value="0.75" label="0.75" alpha="220" color="#2a7f9e"/>
          <item value="1" label="1" alpha="240" color="#123c69"/>
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
