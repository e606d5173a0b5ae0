// The page's style sheet. Colours are those of Okabe and Ito, told apart also with colour-blind
// eyes; curves differ in dashes too.
#pragma once

namespace wmtp::tracking {

inline constexpr const char* kPageStyle =
    ":root{--bg:#fff;--fg:#1d2129;--dim:#5c6470;--line:#d9dde3;--soft:#f5f6f8;--hl:0,114,178;"
    "--sel:#ffe08a;--selfg:#1d2129;"
    "--c0:#0072b2;--c1:#d55e00;--c2:#007a5e;--c3:#a64d8a;--c4:#8a6d00;--c5:#3a87b7;--c6:#555;"
    "--c7:#9b2226}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171c;--fg:#e4e7ec;--dim:#a0a8b4;"
    "--line:#343a44;--soft:#1c2027;--hl:86,180,233;--sel:#6b5200;--selfg:#fff3cf;"
    "--c0:#56b4e9;--c1:#f08a3c;--c2:#2fc79c;--c3:#d98fc0;--c4:#e6c229;--c5:#9bd1f5;--c6:#bbb;"
    "--c7:#ff7b7b}}"
    "body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;max-width:100em;padding:1.5em;"
    "color:var(--fg);background:var(--bg)}"
    "h1{font-size:1.5em;margin:0 0 .5em}h2{font-size:1.15em;margin:1.8em 0 .6em;"
    "border-bottom:1px solid var(--line)}h3{font-size:1em;margin:1.2em 0 .4em}"
    ".grid{display:grid;gap:1em;grid-template-columns:repeat(auto-fit,minmax(19em,1fr))}"
    ".grid figure{max-width:44em}"
    "figure{margin:0;padding:.7em;border:1px solid var(--line);border-radius:8px;min-width:0}"
    "figcaption{font-weight:600;margin-bottom:.3em;overflow-wrap:anywhere}"
    "svg{display:block;width:100%;height:auto}"
    ".axis line{stroke:var(--line);stroke-width:1}.axis text{fill:var(--dim);font-size:11px}"
    "polyline{fill:none;stroke-width:1.8;stroke-linejoin:round}.bars rect{fill:var(--c0)}"
    ".mark{stroke:var(--dim);stroke-dasharray:2 3}"
    "polyline.k0{stroke:var(--c0)}polyline.k1{stroke:var(--c1);stroke-dasharray:6 3}"
    "polyline.k2{stroke:var(--c2);stroke-dasharray:2 2}polyline.k3{stroke:var(--c3);"
    "stroke-dasharray:8 3 2 3}polyline.k4{stroke:var(--c4)}polyline.k5{stroke:var(--c5);"
    "stroke-dasharray:6 3}polyline.k6{stroke:var(--c6);stroke-dasharray:2 2}"
    "polyline.k7{stroke:var(--c7);stroke-dasharray:8 3 2 3}"
    "circle.k0{fill:var(--c0)}circle.k1{fill:var(--c1)}circle.k2{fill:var(--c2)}"
    "circle.k3{fill:var(--c3)}circle.k4{fill:var(--c4)}circle.k5{fill:var(--c5)}"
    "circle.k6{fill:var(--c6)}circle.k7{fill:var(--c7)}"
    ".legend{list-style:none;margin:.3em 0 0;padding:0;display:flex;flex-wrap:wrap;"
    "gap:.1em 1em;font-size:13px;color:var(--dim)}.legend b{color:var(--fg)}"
    ".key{display:inline-block;width:24px;height:8px;margin-right:.4em;vertical-align:middle}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px}"
    "th,td{text-align:left;padding:.3em .8em;border-bottom:1px solid var(--line)}"
    "th{color:var(--dim);font-weight:600}.texts td{overflow-wrap:anywhere}"
    ".numbers td,.numbers th{white-space:nowrap;font-variant-numeric:tabular-nums}"
    "pre{font:13px/1.6 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere;"
    "margin:0;padding:.7em;background:var(--soft);border-radius:6px}"
    ".p{color:var(--dim)}.w{background:rgba(var(--hl),calc(var(--w)*.6))}"
    "mark.s{background:var(--sel);color:var(--selfg);text-decoration:underline}"
    ".u{color:var(--fg)}.scale{color:var(--dim);font-size:13px;margin:.3em 0}"
    ".ramp{display:inline-block;width:6em;height:.8em;vertical-align:middle;"
    "background:linear-gradient(90deg,transparent,rgba(var(--hl),.6));"
    "border:1px solid var(--line)}"
    "details{margin:.6em 0}summary{cursor:pointer}.note{color:var(--dim)}"
    "@media print{body{max-width:none}}";

}  // namespace wmtp::tracking
