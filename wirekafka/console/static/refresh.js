// Refreshes the parts of a page that show moving things: the same part of the same page, got anew.
"use strict";
(() => {
  const LONGEST_MS = 60_000;
  const ANSWER_MS = 15_000;
  const sign = document.getElementById("refreshed");
  const said = sign.querySelector("[data-said]");
  const button = sign.querySelector("button");
  const clock = (ms) => new Date(ms).toISOString().slice(11, 19);
  let isPaused = false;
  let last = Date.now();
  let failure = "";

  function show(seconds) {
    const when = `${clock(last)} UTC`;
    const text = failure ? `Not refreshed since ${when}: ${failure}`
      : isPaused ? `Paused at ${when}` : `Refreshed at ${when}, every ${seconds} s`;
    sign.classList.toggle("bad", Boolean(failure));
    // A failure is announced to screen readers, each refresh is not.
    said.setAttribute("aria-live", failure ? "polite" : "off");
    if (said.textContent !== text) said.textContent = text;
  }

  // What has no key is matched by its place, rows of tables by what they are about.
  function keyOf(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return null;
    if (node.id || node.dataset.key) return node.id || node.dataset.key;
    return node.tagName === "TR" ? node.querySelector("a[href]")?.getAttribute("href") : null;
  }

  function attributes(element, wanted) {
    for (const { name } of [...element.attributes]) {
      if (!wanted.hasAttribute(name) && name !== "open") element.removeAttribute(name);
    }
    for (const { name, value } of wanted.attributes) {
      if (name !== "open" && element.getAttribute(name) !== value) element.setAttribute(name, value);
    }
  }

  const hidden = (form) => form.getAttribute("action") + [...form.querySelectorAll("input[type=hidden]")].map((each) => `&${each.name}=${each.getAttribute("value")}`).join("");

  function become(node, wanted) {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.data !== wanted.data) node.data = wanted.data;
      return;
    }
    // What the visitor has entered stays, unless the form is about something else now.
    if (node.matches("input, select, textarea")) return;
    if (node.matches("form[method=post]")) {
      if (hidden(node) !== hidden(wanted)) node.replaceWith(document.importNode(wanted, true));
      return;
    }
    attributes(node, wanted);
    if (!node.hasAttribute("data-points")) children(node, wanted);
  }

  // Elements that stay keep their focus, scroll position and open details: none is replaced.
  function children(element, wanted) {
    const known = new Map();
    for (const each of element.children) {
      const key = keyOf(each);
      if (key) known.set(key, [...(known.get(key) || []), each]);
    }
    let at = element.firstChild;
    for (const each of [...wanted.childNodes]) {
      const key = keyOf(each);
      const found = key ? known.get(key)?.shift()
        : at && !keyOf(at) && at.nodeName === each.nodeName ? at : null;
      if (!found || found.nodeName !== each.nodeName) {
        element.insertBefore(document.importNode(each, true), at);
        continue;
      }
      if (found === at) at = at.nextSibling;
      else element.insertBefore(found, at);
      become(found, each);
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function replace(element, wanted) {
    const active = document.activeElement;
    const hadFocus = element.contains(active);
    children(element, wanted);
    if (hadFocus && document.activeElement !== active) {
      (active.isConnected ? active : document.getElementById("main")).focus({ preventScroll: true });
    }
    document.dispatchEvent(new Event("refreshed"));
  }

  // Returns why the element could not be refreshed; nothing if it was.
  async function refresh(element) {
    try {
      const answered = new AbortController();
      const timer = setTimeout(() => answered.abort(), ANSWER_MS);
      const response = await fetch(element.dataset.refreshFrom || location.href, { headers: { "X-Refresh": "yes" }, signal: answered.signal });
      if (response.redirected && new URL(response.url).pathname.endsWith("/login")) return "the session has ended; log in again.";
      const text = await response.text();
      clearTimeout(timer);
      const page = new DOMParser().parseFromString(text, "text/html");
      const problem = page.querySelector("main [role=alert]");
      if (!response.ok) return problem ? problem.textContent : `the console answers with status ${response.status}.`;
      const found = page.getElementById(element.id);
      if (!found) return "the page has changed; reload it.";
      if (!isPaused) replace(element, found);
      return "";
    } catch {
      return "the console does not answer.";
    }
  }

  function keep(element) {
    const seconds = Number(element.dataset.refresh);
    let failed = 0;
    let timer = 0;
    let isUnderWay = false;
    const wait = () => {
      clearTimeout(timer);
      if (!isPaused && !document.hidden) timer = setTimeout(run, Math.min(seconds * 1000 * 2 ** failed, Math.max(LONGEST_MS, seconds * 1000)));
    };
    const run = async () => {
      if (isUnderWay) return;
      isUnderWay = true;
      failure = await refresh(element);
      isUnderWay = false;
      failed = failure ? failed + 1 : 0;
      if (!failure && !isPaused) last = Date.now();
      show(seconds);
      wait();
    };
    document.addEventListener("visibilitychange", () => {
      if (document.hidden || isPaused) clearTimeout(timer);
      else if (Date.now() - last >= seconds * 1000) run();
      else wait();
    });
    button.addEventListener("click", () => {
      isPaused = !isPaused;
      button.textContent = isPaused ? "Resume" : "Pause";
      show(seconds);
      if (isPaused) clearTimeout(timer);
      else run();
    });
    sign.hidden = false;
    show(seconds);
    wait();
  }

  document.querySelectorAll("[data-refresh]").forEach(keep);
})();
