// What the commands' pages need beyond the report's sheet. Fills are the eight colours of that
// sheet; tokens are told apart by a fine line, since a token's end is what one looks for.
#pragma once

namespace wmtp::cli::pages {

inline constexpr const char* kCommandPageStyle =
    ".f0{fill:var(--c0);background:var(--c0)}.f1{fill:var(--c1);background:var(--c1)}"
    ".f2{fill:var(--c2);background:var(--c2)}.f3{fill:var(--c3);background:var(--c3)}"
    ".f4{fill:var(--c4);background:var(--c4)}.f5{fill:var(--c5);background:var(--c5)}"
    ".f6{fill:var(--c6);background:var(--c6)}.f7{fill:var(--c7);background:var(--c7)}"
    ".half{background:rgba(var(--hl),.45)}.none{fill:var(--line);background:var(--line)}"
    ".share{display:flex;height:22px;border-radius:4px;overflow:hidden;"
    "margin:.3em 0}.share span{min-width:1px}"
    ".dot{display:inline-block;width:12px;height:12px;border-radius:2px;margin-right:.4em;"
    "vertical-align:-1px}"
    ".side{display:flex;flex-wrap:wrap;gap:1em}.side figure{max-width:100%;box-sizing:border-box}"
    ".facts{padding-left:1.2em}.facts li{overflow-wrap:anywhere}"
    "pre.tokens{unicode-bidi:isolate}.tokens span{border-right:1px solid var(--line)}"
    ".tokens .e:empty::before{content:'\\B7';color:var(--dim)}"
    ".tokens .t{background:rgba(var(--hl),.3)}.tokens .pad{color:var(--dim);"
    "background:repeating-linear-gradient(45deg,transparent 0 4px,var(--line) 4px 5px);"
    "padding:0 .4em}"
    ".samples{display:grid;gap:0 1em;"
    "grid-template-columns:repeat(auto-fill,minmax(min(38em,100%),1fr))}"
    ".sample{min-width:0;margin:0 0 1em}.sample h3{overflow-wrap:anywhere;font-weight:600}"
    ".micro{border-top:2px solid var(--line);margin-top:1.2em;padding-top:.4em}"
    ".targets{margin-top:.4em}.targets td:last-child{white-space:pre}";

}  // namespace wmtp::cli::pages
