// Opens pages of sweeps in a browser and prints what there is to see as JSON.
//
//   node sweep.mjs FOLDER-OF-PLAYWRIGHT CHROMIUM FOLDER-FOR-SCREENSHOTS PAGE...
import { createRequire } from "node:module";
import { mkdirSync } from "node:fs";
import { basename } from "node:path";

const [folder, executablePath, shots, ...pages] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/`)("playwright-core");
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args: quiet });
mkdirSync(shots, { recursive: true });
const all = [];
for (const path of pages) {
  const [errors, requests] = [[], []];
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(`file://${path}`);
  await page.waitForSelector("#points");
  const seen = await page.evaluate(() => ({
    width: document.documentElement.scrollWidth,
    nameless: [...document.querySelectorAll("button, a, svg[role=img]")].filter((node) => !node.getAttribute("aria-label") && !node.textContent.trim()).length,
    rows: [...document.querySelectorAll("#points tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent)),
    legend: [...document.querySelectorAll(".legend li")].map((item) => item.textContent.trim()),
    crossings: [...document.querySelectorAll("#crossings li")].map((item) => item.textContent),
    plots: [...document.querySelectorAll(".plot")].map((plot) => ({
      name: plot.querySelector("figcaption").textContent,
      lines: plot.querySelectorAll("polyline").length,
      outside: [...plot.querySelectorAll("text, circle")].filter((node) => {
        const [box, frame] = [node.getBoundingClientRect(), plot.querySelector("svg").getBoundingClientRect()];
        return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
      }).length,
      points: [...plot.querySelectorAll("circle")].map((point) => [point.querySelector("title").textContent, Number(point.getAttribute("cx")), Number(point.getAttribute("cy"))]),
    })),
  }));
  await page.screenshot({ path: `${shots}/${basename(path, ".html")}.png`, fullPage: true });
  await page.setViewportSize({ width: 390, height: 800 });
  const phone = await page.evaluate(() => document.documentElement.scrollWidth);
  all.push({ errors, requests: requests.filter((url) => url !== `file://${path}` && !url.startsWith("data:")), phone, ...seen });
  await page.close();
}
await browser.close();
console.log(JSON.stringify(all));
