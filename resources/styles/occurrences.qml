<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology">
  <!-- hollow, so that the map shows through; cased in white, so that it is seen on any ground -->
  <renderer-v2 type="singleSymbol" symbollevels="0" enableorderby="0" forceraster="0" referencescale="-1">
    <symbols>
      <symbol type="marker" name="0" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleMarker" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="diamond"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,220"/>
            <Option type="QString" name="outline_width" value="0.5"/>
            <Option type="QString" name="size" value="1.6"/>
          </Option>
        </layer>
        <layer class="SimpleMarker" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="diamond"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="16,32,44,255"/>
            <Option type="QString" name="outline_width" value="0.25"/>
            <Option type="QString" name="size" value="1.6"/>
          </Option>
        </layer>
      </symbol>
    </symbols>
  </renderer-v2>
  <blendMode>0</blendMode>
  <featureBlendMode>0</featureBlendMode>
  <layerGeometryType>0</layerGeometryType>
</qgis>
