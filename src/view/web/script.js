// Looks again when the server says that something changed. Pages read without it.
"use strict";

const main = document.querySelector("main[data-live]");

if (main) {
  const address = new URL(location.href);
  address.searchParams.set("part", "1");
  const source = new EventSource(main.dataset.live);
  let asking = false;
  let again = false;

  const look = async () => {
    if (asking) {
      again = true;
      return;
    }
    asking = true;
    do {
      again = false;
      try {
        const answer = await fetch(address);
        if (answer.ok) show(await answer.text());
      } catch {
        // The server has gone; what was seen stays.
        source.close();
      }
    } while (again);
    asking = false;
  };

  // The server has escaped all that others wrote. What is being typed or was opened stays.
  const show = (html) => {
    if (main.querySelector("input:focus")) return;
    const open = [...main.querySelectorAll("details[open]")].map((part) => part.id);
    main.innerHTML = html;
    open.forEach((id) => document.getElementById(id)?.setAttribute("open", ""));
  };

  source.addEventListener("changed", look);
  source.addEventListener("over", () => source.close());
}
