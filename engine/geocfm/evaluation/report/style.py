"""How a report looks: for a laptop's screen, and for paper."""

CSS = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body {
  margin: 0; background: #f4f5f2; color: #23282b;
  font: 16px/1.55 "Segoe UI", "Helvetica Neue", Helvetica, Arial, "DejaVu Sans", sans-serif;
}
main, header > div, footer { max-width: 1080px; margin: 0 auto; padding: 0 28px; }
header { background: #1f3a4d; color: #fff; padding: 26px 0 22px; }
header h1 { margin: 0 0 4px; font-size: 1.75rem; font-weight: 600; overflow-wrap: anywhere; }
header p { margin: 0; color: #c9d6de; overflow-wrap: anywhere; }
nav { margin-top: 14px; font-size: .88rem; }
nav a { color: #fff; margin-right: 18px; text-decoration: none; white-space: nowrap;
  border-bottom: 1px solid #7d99aa; }
section { background: #fff; border: 1px solid #dfe2dc; border-radius: 8px;
  padding: 20px 26px 24px; margin: 22px 0; }
h2 { margin: 0 0 10px; font-size: 1.3rem; font-weight: 600; color: #1f3a4d; }
h3 { margin: 22px 0 6px; font-size: 1.02rem; font-weight: 600; }
p { margin: 8px 0; max-width: 78ch; }
ul { margin: 8px 0; padding-left: 22px; max-width: 80ch; }
li { margin: 5px 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px;
  margin: 16px 0 6px; }
.card { border: 1px solid #dfe2dc; border-left: 4px solid #d1495b; border-radius: 6px;
  padding: 10px 14px 12px; background: #fbfbf9; }
.card b { display: block; font-size: 1.7rem; line-height: 1.2; font-weight: 600; color: #1f3a4d; }
.card span { display: block; font-size: .88rem; line-height: 1.4; }
.card small { display: block; color: #626b70; }
.note { border-left: 4px solid #e9a03b; background: #fdf6e8; padding: 8px 14px; margin: 12px 0; }
.told { display: grid; grid-template-columns: 3fr 2fr; gap: 0 36px; align-items: start; }
.told > div:last-child { background: #fdf6e8; border-left: 4px solid #e9a03b;
  border-radius: 0 6px 6px 0; padding: 0 18px 8px; margin-top: 22px; font-size: .92rem; }
.told > div:last-child h3 { margin-top: 12px; }
@media (max-width: 820px) { .told { grid-template-columns: 1fr; } }
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(400px, 1fr)); gap: 10px 30px;
  align-items: start; }
figure { margin: 14px 0 6px; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figure.map img { max-width: min(100%, 760px); }
figure.chart img { width: 100%; max-width: 520px; }
figcaption { color: #4c555a; font-size: .88rem; line-height: 1.45; margin-top: 6px; }
.layers { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 18px;
  margin: 12px 0; }
.layers figure { margin: 0; border: 1px solid #dfe2dc; border-radius: 6px; overflow: hidden;
  background: #fbfbf9; }
.layers .frame { background: #e7e9e4; height: 170px; display: flex; align-items: center;
  justify-content: center; padding: 8px; }
.layers img { max-height: 154px; max-width: 100%; image-rendering: auto; }
.layers figcaption { padding: 8px 12px 10px; margin: 0; overflow-wrap: anywhere; }
.layers figcaption b { display: block; color: #23282b; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: 12px 0; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: 5px 18px 5px 0; text-align: left; vertical-align: top; font-weight: 400; }
thead th { border-bottom: 2px solid #1f3a4d; font-weight: 600; vertical-align: bottom; }
tbody tr { border-bottom: 1px solid #e4e7e1; }
tbody th { font-weight: 600; overflow-wrap: anywhere; }
td small { color: #626b70; white-space: nowrap; }
table.numbers td, table.numbers thead th:not(:first-child) { text-align: right; }
table.numbers td { white-space: nowrap; }
table.wide { width: 100%; }
table.wide td:last-child, table.wide thead th:last-child { text-align: left; white-space: normal;
  padding-left: 18px; width: 28%; }
table.files td { overflow-wrap: anywhere; }
table.files th { overflow-wrap: normal; }
table.facts { width: 100%; }
table.facts th { width: 10em; }
table.facts td { overflow-wrap: anywhere; }
table svg { display: block; margin-top: 4px; }
details { margin: 10px 0; }
summary { cursor: pointer; }
pre { font-size: .78rem; line-height: 1.4; background: #f4f5f2; padding: 12px; border-radius: 6px;
  white-space: pre-wrap; overflow-wrap: anywhere; }
footer { color: #626b70; font-size: .85rem; padding-bottom: 30px; }
@media print {
  @page { margin: 14mm; }
  body { background: #fff; font-size: 9.5pt; }
  .cards { grid-template-columns: repeat(4, 1fr); gap: 8px; }
  .card b { font-size: 1.4rem; }
  table { break-inside: avoid; }
  .scroll { overflow: visible; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  nav { display: none; }
  main, header > div, footer { max-width: none; padding: 0 4mm; }
  section { border: none; border-top: 1px solid #c9cec6; border-radius: 0; padding: 10px 0;
    margin: 10px 0; }
  figure, .card, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .pair { grid-template-columns: 1fr 1fr; }
  .told { grid-template-columns: 3fr 2fr; }
  figure.map img { max-width: 130mm; }
  .layers { grid-template-columns: repeat(4, 1fr); }
}
"""
