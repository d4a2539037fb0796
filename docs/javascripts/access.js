"use strict";
// What the theme leaves out: a name for the search, and reach for the keyboard where text is wider than its place.
addEventListener("load", () => {
  document.querySelector("[data-md-component=search]")?.setAttribute("aria-label", "Search");
  for (const place of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) place.tabIndex = 0;
});
