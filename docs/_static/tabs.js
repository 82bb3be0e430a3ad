// Neighbouring sections "In Python" and "In the shell" become tabs. Without scripts they follow one another.
document.addEventListener("DOMContentLoaded", () => {
    const panels = ["in-python", "in-the-shell"].map((id) => document.getElementById(id));
    if (panels[0] === null || panels[0].nextElementSibling !== panels[1]) return;
    const list = document.createElement("div");
    list.className = "tabs";
    list.setAttribute("role", "tablist");
    const tabs = panels.map((panel) => {
        const tab = document.createElement("button");
        tab.textContent = panel.querySelector("h2").firstChild.textContent;
        tab.setAttribute("role", "tab");
        tab.setAttribute("aria-controls", panel.id);
        tab.addEventListener("click", () => select(panel));
        panel.setAttribute("role", "tabpanel");
        return list.appendChild(tab);
    });
    const select = (shown) => panels.forEach((panel, i) => {
        panel.hidden = panel !== shown;
        tabs[i].setAttribute("aria-selected", panel === shown);
        tabs[i].tabIndex = panel === shown ? 0 : -1;
    });
    list.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        const next = tabs[tabs.indexOf(document.activeElement) === 0 ? 1 : 0];
        next.click();
        next.focus();
    });
    const follow = () => select(panels.find((panel) => location.hash === "#" + panel.id) ?? panels[0]);
    window.addEventListener("hashchange", follow);
    panels[0].before(list);
    follow();
});
