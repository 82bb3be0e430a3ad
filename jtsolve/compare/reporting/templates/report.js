"use strict";
// A click, Enter or Space on a heading sorts the table by that column; a second one reverses the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = table.tHead.rows[0].cells;
  for (const [column, head] of Array.from(heads).entries()) {
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const value = (row) => row.cells[column].textContent.trim();
      const order = (a, b) => {
        const x = parseFloat(value(a)), y = parseFloat(value(b));
        if (Number.isNaN(x) && Number.isNaN(y)) return sign * value(a).localeCompare(value(b));
        if (Number.isNaN(x)) return 1;  // missing values come last in both orders
        if (Number.isNaN(y)) return -1;
        return sign * (x - y);
      };
      table.tBodies[0].append(...Array.from(table.tBodies[0].rows).sort(order));
    };
    head.tabIndex = 0;
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort();
    });
  }
}
