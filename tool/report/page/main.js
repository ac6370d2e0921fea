// Starts the report: decodes, draws, and draws again when the theme or the width changes.

const nextFrame = () =>
    new Promise((resolve) => {
        setTimeout(resolve, 0);
    });
const drawAgain = () => redraws.forEach((draw) => draw());

const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
let chosenTheme = null; // by the button; until then, the system's

function setTheme(theme) {
    document.documentElement.dataset.theme = theme || (systemIsDark.matches ? "dark" : "light");
    drawAgain();
}

function followTheme() {
    setTheme(null);
    systemIsDark.addEventListener("change", () => setTheme(chosenTheme));
    byId("theme").addEventListener("click", () => {
        chosenTheme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
        setTheme(chosenTheme);
    });
    addEventListener("beforeprint", () => setTheme("light"));
    addEventListener("afterprint", () => setTheme(chosenTheme));
}

function followWidth() {
    let width = innerWidth;
    addEventListener("resize", () => {
        if (innerWidth === width) return; // a phone's address bar changes only the height
        width = innerWidth;
        requestAnimationFrame(drawAgain);
    });
}

async function start() {
    const mark = (what) => {
        document.documentElement.dataset[what] = String(Math.round(performance.now()));
    };
    followTheme();
    followWidth();
    addEventListener("scroll", hideTip, { passive: true });
    const model = decode(JSON.parse(byId("data").textContent));
    byId("data").remove();
    makeOverview(model);
    makeDetail(model);
    makeTreemap(model);
    mark("shown");
    await nextFrame(); // shows what is ready before drawing the rest
    makeTable(model);
    makeHeatmap(model);
    makeFiles(model);
    mark("ready");
}

start();
