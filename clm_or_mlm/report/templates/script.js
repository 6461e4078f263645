"use strict";
(() => {
  const find = document.getElementById("find");
  const differs = document.getElementById("differs");
  const count = document.getElementById("count");
  const tables = [...document.querySelectorAll("details.table")];

  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const active = words.length > 0 || differs.checked;
    let shown = 0;
    let all = 0;
    for (const table of tables) {
      const rows = [...table.querySelectorAll("tr[data-compares]")];
      let here = 0;
      for (const row of rows) {
        const fits = words.every((word) => row.dataset.text.includes(word)) &&
          (!differs.checked || row.dataset.compares === "differs");
        row.hidden = !fits;
        here += fits ? 1 : 0;
      }
      table.hidden = active && here === 0;
      if (active && here > 0) table.open = true;
      shown += here;
      all += rows.length;
    }
    count.textContent = active ? `${shown} of ${all} rows` : "";
  }

  function key(row, column) {
    const cell = row.cells[column];
    const text = cell.dataset.sort ?? cell.textContent.trim();
    const plain = text.replace(/,/g, "").replace(/%$/, "");
    const number = plain === "" ? NaN : Number(plain);
    return { empty: text === "" || text === "-", number, text };
  }

  function sort(table, column, heading) {
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [key(row, column), row]);
    rows.sort(([a], [b]) => {
      if (a.empty || b.empty) return Number(a.empty) - Number(b.empty);
      const order = Number.isNaN(a.number) || Number.isNaN(b.number)
        ? a.text.localeCompare(b.text, "en", { numeric: true })
        : a.number - b.number;
      return down ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, column) => {
      if (heading.classList.contains("nosort")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, column, heading));
      heading.append(button);
    });
  }

  function reveal() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.matches("details")) target.open = true;
  }

  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", filter);
  differs.addEventListener("change", filter);
  document.getElementById("open-all").addEventListener("click", () => tables.forEach((table) => { table.open = true; }));
  document.getElementById("close-all").addEventListener("click", () => tables.forEach((table) => { table.open = false; }));
  addEventListener("beforeprint", () => tables.forEach((table) => { table.open = true; }));
  addEventListener("hashchange", reveal);
  reveal();
})();
