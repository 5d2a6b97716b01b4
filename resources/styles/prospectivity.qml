<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology">
  <!-- inferno, transparent at its low end; the values are replaced by percentiles of the raster. White
       there, because the legends of layouts leave out transparency -->
  <pipe>
    <provider>
      <resampling enabled="true" zoomedInResamplingMethod="bilinear" zoomedOutResamplingMethod="nearestNeighbour" maxOversampling="2"/>
    </provider>
    <rasterrenderer type="singlebandpseudocolor" band="1" alphaBand="-1" opacity="1" nodataColor="" classificationMin="1" classificationMax="12">
      <minMaxOrigin>
        <limits>None</limits>
        <extent>WholeRaster</extent>
        <statAccuracy>Estimated</statAccuracy>
      </minMaxOrigin>
      <rastershader>
        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" minimumValue="1" maximumValue="12" labelPrecision="2">
          <item value="1" label="1" alpha="0" color="#ffffff"/>
          <item value="1.3" label="1.3" alpha="45" color="#4a0c6b"/>
          <item value="3" label="3" alpha="150" color="#932667"/>
          <item value="4.7" label="4.7" alpha="215" color="#cf4446"/>
          <item value="7.2" label="7.2" alpha="240" color="#f37819"/>
          <item value="9.4" label="9.4" alpha="250" color="#fca50a"/>
          <item value="12" label="12" alpha="255" color="#f6e04b"/>
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
