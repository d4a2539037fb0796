"use strict";
// Returns the text of a script element with JSON, or with compressed text as reports/interactive.py packs it.
const unpacked = async (text) => {
  const data = JSON.parse(text);
  if (!("gzip" in data)) return text;
  const bytes = Uint8Array.from(atob(data.gzip), (character) => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
