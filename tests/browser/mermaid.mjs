// Draws graphs with Mermaid in a browser and prints, of each, the texts of its nodes and groups as JSON.
//
//   node mermaid.mjs FOLDER CHROMIUM < GRAPHS.json
//
// FOLDER has `playwright-core` and `mermaid`.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [folder, executablePath] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { chromium } = require("playwright-core");
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args: quiet });
const page = await browser.newPage();
await page.setContent("<!doctype html><body></body>");
await page.addScriptTag({ path: require.resolve("mermaid/dist/mermaid.min.js") });
const drawn = await page.evaluate(async (graphs) => {
  mermaid.initialize({ startOnLoad: false });
  const all = [];
  for (const [place, graph] of graphs.entries()) {
    const { svg } = await mermaid.render(`graph${place}`, graph);
    const picture = new DOMParser().parseFromString(svg, "text/html");
    const texts = (kind) => [...picture.querySelectorAll(kind)].map((label) => label.textContent);
    all.push({ nodes: texts(".node .nodeLabel"), groups: texts(".cluster .nodeLabel"), scripts: picture.querySelectorAll("script, img, iframe, a").length });
  }
  return all;
}, JSON.parse(readFileSync(0, "utf8")));
await browser.close();
console.log(JSON.stringify(drawn));
