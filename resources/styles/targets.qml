<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22.0" styleCategories="Symbology|Labeling" labelsEnabled="1">
  <!-- blues, which no stop of the map's ramp is near; the better the rank the stronger the line, cased in
       white (locked, so that another colour ramp leaves it as it is) and hardly filled: the map shows
       through. Best on top -->
  <renderer-v2 type="graduatedSymbol" attr="rank" graduatedMethod="GraduatedColor" symbollevels="0" enableorderby="1" forceraster="0" referencescale="-1">
    <ranges>
      <range symbol="0" lower="0.5" upper="1.5" label="" render="true"/>
      <range symbol="1" lower="1.5" upper="5.5" label="" render="true"/>
      <range symbol="2" lower="5.5" upper="10.5" label="" render="true"/>
      <range symbol="3" lower="10.5" upper="1000000" label="" render="true"/>
    </ranges>
    <symbols>
      <symbol type="fill" name="0" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="style" value="solid"/>
            <Option type="QString" name="joinstyle" value="round"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,215"/>
            <Option type="QString" name="outline_width" value="1.4"/>
          </Option>
        </layer>
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="style" value="solid"/>
            <Option type="QString" name="joinstyle" value="round"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="color" value="0,184,200,26"/>
            <Option type="QString" name="outline_color" value="0,184,200,255"/>
            <Option type="QString" name="outline_width" value="0.9"/>
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="1" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="style" value="solid"/>
            <Option type="QString" name="joinstyle" value="round"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,215"/>
            <Option type="QString" name="outline_width" value="1.2"/>
          </Option>
        </layer>
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="style" value="solid"/>
            <Option type="QString" name="joinstyle" value="round"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="color" value="15,139,208,20"/>
            <Option type="QString" name="outline_color" value="15,139,208,255"/>
            <Option type="QString" name="outline_width" value="0.7"/>
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="2" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="style" value="solid"/>
            <Option type="QString" name="joinstyle" value="round"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,215"/>
            <Option type="QString" name="outline_width" value="1.05"/>
          </Option>
        </layer>
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="style" value="solid"/>
            <Option type="QString" name="joinstyle" value="round"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="color" value="74,111,208,16"/>
            <Option type="QString" name="outline_color" value="74,111,208,255"/>
            <Option type="QString" name="outline_width" value="0.55"/>
          </Option>
        </layer>
      </symbol>
      <symbol type="fill" name="3" alpha="1" clip_to_extent="1" force_rhr="0">
        <layer class="SimpleFill" enabled="1" locked="1" pass="0">
          <Option type="Map">
            <Option type="QString" name="style" value="solid"/>
            <Option type="QString" name="joinstyle" value="round"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="color" value="255,255,255,0"/>
            <Option type="QString" name="outline_color" value="255,255,255,215"/>
            <Option type="QString" name="outline_width" value="0.9"/>
          </Option>
        </layer>
        <layer class="SimpleFill" enabled="1" locked="0" pass="0">
          <Option type="Map">
            <Option type="QString" name="style" value="solid"/>
            <Option type="QString" name="joinstyle" value="round"/>
            <Option type="QString" name="outline_style" value="solid"/>
            <Option type="QString" name="outline_width_unit" value="MM"/>
            <Option type="QString" name="color" value="141,134,184,10"/>
            <Option type="QString" name="outline_color" value="141,134,184,255"/>
            <Option type="QString" name="outline_width" value="0.4"/>
          </Option>
        </layer>
      </symbol>
    </symbols>
    <orderby>
      <orderByClause asc="0" nullsFirst="0">"rank"</orderByClause>
    </orderby>
  </renderer-v2>
  <labeling type="simple">
    <settings calloutType="simple">
      <text-style fieldName="rank" isExpression="0" fontSize="10" fontSizeUnit="Point" fontWeight="75" fontKerning="1" textColor="11,43,74,255" textOpacity="1" textOrientation="horizontal" multilineHeight="1" blendMode="0">
        <text-buffer bufferDraw="1" bufferSize="0.6" bufferSizeUnits="MM" bufferColor="255,255,255,255" bufferOpacity="1" bufferNoFill="1" bufferJoinStyle="128" bufferBlendMode="0"/>
      </text-style>
      <placement placement="1" quadOffset="4" centroidInside="1" centroidWhole="0" fitInPolygonOnly="0" polygonPlacementFlags="2" priority="9" dist="0" xOffset="0" yOffset="0" offsetUnits="MM" rotationAngle="0" preserveRotation="1"/>
      <rendering drawLabels="1" displayAll="0" labelPerPart="0" obstacle="1" obstacleFactor="1" obstacleType="1" fontMinPixelSize="0" fontMaxPixelSize="10000" fontLimitPixelSize="0" limitNumLabels="0" maxNumLabels="2000" minFeatureSize="0" scaleVisibility="0" upsidedownLabels="0" zIndex="0"/>
      <dd_properties>
        <Option type="Map">
          <Option name="name" value="" type="QString"/>
          <Option name="properties" type="Map">
            <Option name="Size" type="Map">
              <Option name="active" value="true" type="bool"/>
              <Option name="expression" value="if(&quot;rank&quot; &lt;= 5, 11, if(&quot;rank&quot; &lt;= 10, 9.5, 8))" type="QString"/>
              <Option name="type" value="3" type="int"/>
            </Option>
            <Option name="ZIndex" type="Map">
              <Option name="active" value="true" type="bool"/>
              <Option name="expression" value="-&quot;rank&quot;" type="QString"/>
              <Option name="type" value="3" type="int"/>
            </Option>
          </Option>
          <Option name="type" value="collection" type="QString"/>
        </Option>
      </dd_properties>
    </settings>
  </labeling>
  <blendMode>0</blendMode>
  <featureBlendMode>0</featureBlendMode>
  <layerGeometryType>2</layerGeometryType>
</qgis>
