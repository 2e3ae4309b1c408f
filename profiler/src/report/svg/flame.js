(() => {
  const root = document.currentScript.ownerSVGElement;
  const frames = [...root.querySelectorAll("g.frame")];
  const WIDE = 1180, LEFT = 10, LETTER = 6.8;
  const number = (frame, name) => Number(frame.dataset[name]);
  const zoom = (to) => {
    const from = number(to, "begin"), width = number(to, "width"), depth = number(to, "depth");
    for (const frame of frames) {
      const begin = number(frame, "begin"), end = begin + number(frame, "width");
      const above = number(frame, "depth") < depth && begin <= from + 1e-6 && end >= from + width - 1e-6;
      const inside = begin >= from - 1e-6 && end <= from + width + 1e-6 && number(frame, "depth") >= depth;
      frame.style.display = above || inside ? "" : "none";
      frame.style.opacity = above ? 0.6 : 1;
      const left = above ? 0 : (begin - from) / width, part = above ? 1 : (end - begin) / width;
      const [box, text] = [frame.querySelector("rect"), frame.querySelector("text")];
      box.setAttribute("x", LEFT + WIDE * left);
      box.setAttribute("width", Math.max(WIDE * part - 0.5, 0.2));
      text.setAttribute("x", LEFT + WIDE * left + 3);
      const room = Math.floor((WIDE * part - 6) / LETTER), name = frame.dataset.name;
      text.textContent = room < 3 ? "" : name.length <= room ? name : name.slice(0, room - 1) + "…";
    }
    root.querySelector("#out").style.display = to === frames[0] ? "none" : "";
  };
  const search = () => {
    const asked = prompt("Part of a name; nothing ends the search");
    if (asked === null) return;
    const part = asked.toLowerCase();
    for (const frame of frames) {
      const found = !part || frame.dataset.name.toLowerCase().includes(part);
      frame.querySelector("rect").style.fillOpacity = found ? 1 : 0.25;
    }
  };
  frames.forEach((frame) => frame.addEventListener("click", () => zoom(frame)));
  root.querySelector("#out").addEventListener("click", () => zoom(frames[0]));
  root.querySelector("#search").addEventListener("click", search);
  root.querySelector("#search").style.display = "";
})();
