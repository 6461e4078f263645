"use strict";
(() => {
  const find = document.getElementById("find");
  const differs = document.getElementById("differs");
  const count = document.getElementById("count");
  const clear = document.getElementById("clear");
  const tables = [...document.querySelectorAll("details.table")];

  // Find: every word must be in a row's text.
  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const only = Boolean(differs && differs.checked);
    const active = words.length > 0 || only;
    let shown = 0;
    let all = 0;
    for (const table of tables) {
      const rows = [...table.querySelectorAll("tr[data-compares]")];
      let here = 0;
      for (const row of rows) {
        const kept = words.every((word) => row.dataset.text.includes(word)) && (!only || row.dataset.compares === "differs");
        row.hidden = !kept;
        here += kept ? 1 : 0;
      }
      table.hidden = active && here === 0;
      if (active && here > 0) table.open = true;
      shown += here;
      all += rows.length;
    }
    clear.hidden = !active;
    count.textContent = active ? `${shown} of ${all} rows` : "";
  }

  function reset() {
    find.value = "";
    if (differs) differs.checked = false;
    filter();
  }

  // Sort
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
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.addEventListener("click", () => sort(table, column, heading));
      heading.append(button);
    });
  }

  // A link to something closed or filtered out opens it before the browser jumps there.
  function reveal(id) {
    const target = id && document.getElementById(id);
    if (!target) return;
    if (target.closest("[hidden]")) reset();
    for (let box = target.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link) reveal(link.getAttribute("href").slice(1));
  });
  addEventListener("hashchange", () => reveal(location.hash.slice(1)));
  if (location.hash) {
    reveal(location.hash.slice(1));
    document.getElementById(location.hash.slice(1))?.scrollIntoView();
  }

  document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", filter);
  if (differs) differs.addEventListener("change", filter);
  clear.addEventListener("click", () => { reset(); find.focus(); });
  document.getElementById("open-all").addEventListener("click", () => tables.forEach((table) => { table.open = true; }));
  document.getElementById("close-all").addEventListener("click", () => tables.forEach((table) => { table.open = false; }));
  addEventListener("beforeprint", () => tables.forEach((table) => { table.open = true; }));
})();
