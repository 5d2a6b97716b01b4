<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology">
  <!-- inferno by doublings of the density: 1, 2, 4, 8 and 16 times the regional mean; densest on top;
       the white casing is locked, so that another colour ramp leaves it as it is -->
  <renderer-v2 type="graduatedSymbol" attr="log_relative_density" graduatedMethod="GraduatedColor" symbollevels="0" enableorderby="1" forceraster="0" referencescale="-1">
    <ranges>
      <range symbol="0" lower="-1000" upper="0" label="" render="true"/>
      <range symbol="1" lower="0" upper="0.693147180559945" label="" render="true"/>
      <range symbol="2" lower="0.693147180559945" upper="1.38629436111989" label="" render="true"/>
      <range symbol="3" lower="1.38629436111989" upper="2.07944154167984" label="" render="true"/>
      <range symbol="4" lower="2.07944154167984" upper="2.77258872223978" label="" render="true"/>
      <range symbol="5" lower="2.77258872223978" upper="1000" label="" render="true"/>
    </ranges>
    <symbols>
      <symbol type="marker" name="0" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleMarker" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,230"/>
            <Option type="QString" name="outline_width" value="0.15"/>
            <Option type="QString" name="size" value="1.00"/>
          </Option>
        </layer>
        <layer class="SimpleMarker" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="43,11,87,255"/>
            <Option type="QString" name="outline_color" value="26,26,26,255"/>
            <Option type="QString" name="outline_width" value="0.1"/>
            <Option type="QString" name="size" value="0.8"/>
          </Option>
        </layer>
      </symbol>
      <symbol type="marker" name="1" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleMarker" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,230"/>
            <Option type="QString" name="outline_width" value="0.15"/>
            <Option type="QString" name="size" value="1.05"/>
          </Option>
        </layer>
        <layer class="SimpleMarker" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="106,23,110,255"/>
            <Option type="QString" name="outline_color" value="26,26,26,255"/>
            <Option type="QString" name="outline_width" value="0.1"/>
            <Option type="QString" name="size" value="0.85"/>
          </Option>
        </layer>
      </symbol>
      <symbol type="marker" name="2" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleMarker" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,230"/>
            <Option type="QString" name="outline_width" value="0.15"/>
            <Option type="QString" name="size" value="1.15"/>
          </Option>
        </layer>
        <layer class="SimpleMarker" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="181,51,90,255"/>
            <Option type="QString" name="outline_color" value="26,26,26,255"/>
            <Option type="QString" name="outline_width" value="0.1"/>
            <Option type="QString" name="size" value="0.95"/>
          </Option>
        </layer>
      </symbol>
      <symbol type="marker" name="3" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleMarker" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,230"/>
            <Option type="QString" name="outline_width" value="0.15"/>
            <Option type="QString" name="size" value="1.20"/>
          </Option>
        </layer>
        <layer class="SimpleMarker" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="234,100,36,255"/>
            <Option type="QString" name="outline_color" value="26,26,26,255"/>
            <Option type="QString" name="outline_width" value="0.1"/>
            <Option type="QString" name="size" value="1.0"/>
          </Option>
        </layer>
      </symbol>
      <symbol type="marker" name="4" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleMarker" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,230"/>
            <Option type="QString" name="outline_width" value="0.15"/>
            <Option type="QString" name="size" value="1.30"/>
          </Option>
        </layer>
        <layer class="SimpleMarker" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="252,165,10,255"/>
            <Option type="QString" name="outline_color" value="26,26,26,255"/>
            <Option type="QString" name="outline_width" value="0.1"/>
            <Option type="QString" name="size" value="1.1"/>
          </Option>
        </layer>
      </symbol>
      <symbol type="marker" name="5" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleMarker" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,230"/>
            <Option type="QString" name="outline_width" value="0.15"/>
            <Option type="QString" name="size" value="1.40"/>
          </Option>
        </layer>
        <layer class="SimpleMarker" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="name" value="circle"/>
            <Option type="QString" name="size_unit" value="MM"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="scale_method" value="diameter"/>
            <Option type="QString" name="joinstyle" value="miter"/>
            <Option type="QString" name="color" value="249,240,138,255"/>
            <Option type="QString" name="outline_color" value="26,26,26,255"/>
            <Option type="QString" name="outline_width" value="0.1"/>
            <Option type="QString" name="size" value="1.2"/>
          </Option>
        </layer>
      </symbol>
    </symbols>
    <classificationMethod id="Custom"/>
    <orderby>
      <orderByClause asc="1" nullsFirst="1">"log_relative_density"</orderByClause>
    </orderby>
  </renderer-v2>
  <blendMode>0</blendMode>
  <featureBlendMode>0</featureBlendMode>
  <layerGeometryType>0</layerGeometryType>
</qgis>
