// Opens reports in a browser, does what a reader does, and prints what there is to see as JSON.
//
//   node report.mjs FOLDER-OF-PLAYWRIGHT CHROMIUM FOLDER-FOR-SCREENSHOTS PAGE...
import { createRequire } from "node:module";
import { mkdirSync } from "node:fs";
import { basename } from "node:path";

const [folder, executablePath, shots, ...pages] = process.argv.slice(2);
const { chromium } = createRequire(`${folder}/`)("playwright-core");
const quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath, args: quiet });
mkdirSync(shots, { recursive: true });

const holdings = (page) => page.$$eval("#holdings tbody tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
const click = (page, name) => page.getByRole("button", { name, exact: true }).click();

// The button itself, without waiting for the mouse: there are hundreds of events.
const press = (page, name) => page.$eval(`#player button[aria-label="${name}"]`, (button) => button.click());

// Each collective, event by event to the end; of many the first ones.
const play = async (page) => {
  const collectives = [];
  const count = Math.min(await page.locator("#collective option").count(), 6);
  for (let place = 0; place < count; place += 1) {
    await page.selectOption("#collective", `${place}`);
    await page.evaluate(() => { document.getElementById("holdings").open = true; });
    const name = await page.$eval("#collective", (select) => select.selectedOptions[0].textContent);
    const begin = await holdings(page);
    let events = 0;
    while (!(await page.textContent("#player .status")).includes("Done.") && events < 500) {
      await press(page, "next event");
      events += 1;
    }
    const end = await holdings(page);
    await press(page, "first event");
    const again = await holdings(page);
    await press(page, "last event");
    collectives.push({ name, begin, again, end, jumped: await holdings(page), events });
  }
  return collectives;
};

// The first collective with its messages in motion: one click per event, faster than they fly. The status after the
// last messages have arrived.
const animated = async (path, events, errors) => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, reducedMotion: "no-preference" });
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(`file://${path}`);
  await page.waitForSelector("section:last-of-type");
  const status = () => page.textContent("#player .status");
  for (let clicks = 0; clicks < events; clicks += 1) {
    await press(page, "next event");
    await page.waitForTimeout(clicks % 3 === 0 ? 0 : 25);
  }
  // An animation takes 0.7 s.
  for (let waits = 0; waits < 100 && !(await status()).includes("Done."); waits += 1) await page.waitForTimeout(50);
  const end = await status();
  await page.close();
  return end;
};

// The view of the timeline after buttons, keys and wheel.
const zoom = async (page) => {
  const canvas = page.locator("#timeline canvas");
  if ((await canvas.count()) === 0) return null;
  const view = () => canvas.evaluate((canvas) => [Number(canvas.dataset.from), Number(canvas.dataset.to)]);
  const views = { all: await view() };
  await click(page, "zoom in");
  views.in = await view();
  await click(page, "later");
  views.later = await view();
  await canvas.focus();
  await page.keyboard.press("0");
  views.key = await view();
  await page.keyboard.press("+");
  views.plus = await view();
  await click(page, "show all");
  await canvas.hover();
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, -300);
  await page.keyboard.up("Control");
  await page.waitForTimeout(100);
  views.wheel = await view();
  await click(page, "show all");
  // Something is painted.
  views.colors = await canvas.evaluate((canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return new Set(Array.from({ length: data.length / 4 }, (_, at) => `${data[4 * at]},${data[4 * at + 1]},${data[4 * at + 2]}`)).size;
  });
  return views;
};

// What a person who does not see, or has no mouse, would miss.
const nameless = (page) => page.evaluate(() => {
  const words = (node) => node.getAttribute("aria-label") || node.textContent.trim() || (node.labels && node.labels.length > 0 && node.labels[0].textContent.trim());
  const all = [...document.querySelectorAll("button, select, input, a, canvas, svg[role=img], [role=group]")];
  return all.filter((node) => !words(node) && !node.closest("[aria-hidden]")).map((node) => node.outerHTML.slice(0, 80));
});

// Tab from the start until a button is reached, and press it.
const byKeyboard = async (page) => {
  if ((await page.locator("#player button").count()) === 0) return null;
  await page.selectOption("#collective", "0");
  await page.evaluate(() => document.activeElement.blur());
  for (let presses = 0; presses < 400; presses += 1) {
    await page.keyboard.press("Tab");
    if ((await page.evaluate(() => document.activeElement.getAttribute("aria-label"))) === "next event") break;
  }
  await page.keyboard.press("Enter");
  return page.textContent("#player .status");
};

// Each device on the mesh: what it holds, and where in its frame that is drawn.
const onMesh = (page) => page.$$eval("#layouts svg[role=img]", (all) => all.filter((picture) => picture.querySelector("[data-place]")).map((picture) =>
  [...picture.querySelectorAll("g")].map((device) => {
    const [frame, block] = [device.querySelector(".device").getBBox(), device.querySelector("[data-place]").getBBox()];
    const where = [block.x - frame.x, block.y - frame.y, block.width, block.height].map((number) => number.toFixed(1)).join(" ");
    return [device.querySelector("title").textContent.replace(/^.* holds /, ""), where];
  })));

// As it is printed by who has chosen dark: its colours, and whether anything is wider than the paper.
const printed = async (path, errors) => {
  const page = await browser.newPage({ viewport: { width: 720, height: 1000 }, colorScheme: "dark" });
  page.on("pageerror", (error) => errors.push(error.message));
  await page.goto(`file://${path}`);
  await page.waitForSelector("section:last-of-type");
  const themes = () => page.evaluate(() => document.documentElement.dataset.theme);
  const before = await themes();
  await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
  const during = await themes();
  await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
  const after = await themes();
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  const seen = await page.evaluate(() => {
    const style = getComputedStyle(document.body);
    const cut = [...document.querySelectorAll("main *")].filter((node) => !node.closest("svg, summary, .skip") && node.getBoundingClientRect().right > window.innerWidth + 1);
    const wide = [...document.querySelectorAll("main svg[role=img]")].filter((picture) => picture.getBoundingClientRect().right > window.innerWidth + 1);
    return { paper: style.backgroundColor, ink: style.color, width: document.documentElement.scrollWidth, cut: [...cut, ...wide].slice(0, 5).map((node) => node.outerHTML.slice(0, 120)) };
  });
  await page.close();
  return { ...seen, themes: [before, during, after] };
};

// Pages of which a picture is taken, section by section.
const SHOWN = ["megatron_mlp", "machines_two_levels", "experts", "heads", "odd", "seventy", "large", "wrong"];

const seen = [];
for (const path of pages) {
  const name = basename(path, ".html");
  const one = { name, errors: [], requests: [] };
  for (const [screen, width, height, colorScheme] of [["desktop", 1280, 900, "light"], ["phone", 390, 844, "dark"]]) {
    const page = await browser.newPage({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
    page.on("console", (message) => { if (["error", "warning"].includes(message.type())) one.errors.push(message.text()); });
    page.on("pageerror", (error) => one.errors.push(error.message));
    page.on("request", (request) => { if (request.url() !== `file://${path}` && !request.url().startsWith("data:")) one.requests.push(request.url()); });
    const begin = Date.now();
    await page.goto(`file://${path}`);
    await page.waitForSelector("section:last-of-type");
    one[`${screen}Milliseconds`] = Date.now() - begin;
    const sections = await page.$$eval("section", (all) => all.map((section) => section.id));
    for (const section of SHOWN.includes(name) ? sections : []) await page.locator(`#${section}`).screenshot({ path: `${shots}/${name}-${screen}-${section}.png` });
    // Nothing is wider than the screen, but what can be scrolled by itself.
    one[`${screen}Width`] = await page.evaluate(() => document.documentElement.scrollWidth);
    if (screen === "phone") {
      await page.close();
      continue;
    }
    one.sections = sections;
    one.lines = await page.$$eval("#program .source > div > span:last-child", (lines) => lines.map((line) => line.textContent));
    one.findings = await page.$$eval(".finding", (findings) => findings.map((finding) => finding.textContent));
    one.marks = await page.$$eval("#program mark", (marks) => marks.map((mark) => mark.textContent));
    one.foreign = await page.$$eval("main script, main img, main iframe, main b, main u, main style", (all) => all.length);
    one.nameless = await nameless(page);
    if (sections.includes("plan")) {
      one.steps = await page.locator("#plan details.step").count();
      await click(page, "unfold all steps");
      one.unfolded = await page.locator("#plan details.step[open]").count();
      one.ways = await page.$$eval("#plan details.step", (all) => all.map((step) => step.querySelectorAll("tbody tr").length));
      one.collectives = await play(page);
      if (SHOWN.includes(name) && one.collectives.length > 0) one.animated = await animated(path, one.collectives[0].events, one.errors);
      one.timeline = await zoom(page);
      one.keyboard = await byKeyboard(page);
      // Everything that is folded is drawn without a fault.
      for (let round = 0; round < 3; round += 1) await page.$$eval("details", (all) => all.slice(0, 300).forEach((details) => { details.open = true; }));
      await page.waitForTimeout(200);
      one.pictures = await page.locator("svg[role=img]").count();
      one.blocks = await page.$$eval("#layouts svg[role=img]", (all) => all.map((picture) => [picture.getAttribute("aria-label"), [...picture.querySelectorAll("title")].map((title) => title.textContent)]));
      await page.screenshot({ path: `${shots}/${name}-unfolded.png`, fullPage: false });
      one.onMesh = await onMesh(page);
      one.drawn = await page.$$eval("#player [data-device]", (all) => all.map((device) => { const { width, height } = device.querySelector(".device").getBBox(); return [width, height]; }));
      one.named = await page.$$eval('#timeline [aria-label="steps"] .swatch', (all) => all.map((swatch) => swatch.style.background));
      one.figures = await page.$$eval("#summary .figures dt", (all) => all.map((term) => term.textContent));
      one.values = await page.$$eval("#summary .figures dd.value", (all) => all.map((value) => value.textContent));
      one.limit = await page.$$eval("#summary .limit", (all) => all.map((limit) => limit.textContent));
      one.theme = [];
      for (let clicks = 0; clicks < 2; clicks += 1) {
        const toggle = page.getByRole("button", { name: "Dark theme", exact: true });
        one.theme.push([await page.evaluate(() => document.documentElement.dataset.theme), await toggle.getAttribute("aria-pressed")]);
        await toggle.click();
      }
    }
    await page.close();
  }
  one.printed = await printed(path, one.errors);
  seen.push(one);
}
await browser.close();
console.log(JSON.stringify(seen));
