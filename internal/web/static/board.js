// The board's page. All that is shown is put in as text, by el: nothing from a sandbox is ever read as
// HTML. The page keeps nothing but the key of its session; the list comes as it is.

const $ = (id) => document.getElementById(id)
// What has no shape of its own, or changes the direction of what follows, is shown by its number.
const clean = (s) => String(s).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/gu, (c) => c === '\n' || c === '\t' ? c : `\\u{${c.codePointAt(0).toString(16)}}`)

function el(tag, attributes, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (typeof value === 'function') node.addEventListener(name, value)
    else if (value === true) node.setAttribute(name, '')
    else if (value !== false && value != null) node.setAttribute(name, clean(value))
  }
  node.append(...children.flat().filter((c) => c != null && c !== false).map((c) => c instanceof Node ? c : clean(c)))
  return node
}
const button = (text, click, kind) => el('button', {type: 'button', class: kind, click}, text)

// --- the session ---

let key = localStorage.getItem('key') ?? ''

async function call(method, path, body, signal) {
  const raw = body instanceof Blob
  const answer = await fetch('/api/' + path, {
    method, signal, headers: {'X-Forage-Key': key}, credentials: 'same-origin', body: body === undefined || raw ? body : JSON.stringify(body),
  })
  if ((answer.status === 401 || answer.status === 421) && path !== 'login') signedOut() // 421: another board is here
  if (answer.ok && path === 'events') return answer.body
  const said = await answer.json().catch(() => ({error: answer.statusText}))
  if (!answer.ok) throw new Error(said.error + (said.hint ? '\n' + said.hint : ''))
  return said
}
const about = (name, what) => `sandboxes/${encodeURIComponent(name)}/${what}`

function problem(text) {
  $('problem').textContent = clean(text)
  $('problem').hidden = !text
}
function toast(text) {
  $('toast')?.remove()
  const node = el('div', {id: 'toast', role: 'status', click: () => node.remove()}, text)
  document.body.append(node)
  setTimeout(() => node.remove(), 5000)
}
function signedOut() {
  live?.abort()
  rows = null
  choose('')
  $('list').querySelector('table').hidden = true
  empty('You are not signed in', 'Open the address that `forage-ctl web` printed. It signs this browser in until the board ends.')
}
function empty(title, text, ...more) {
  $('empty').replaceChildren(el('h2', {}, title), el('p', {}, text), ...more)
  $('empty').hidden = false
}

// --- the list ---

let rows = null, live = null, chosen = '', tab = 'screen'
const shown = new Map() // name -> row of the table

async function listen() {
  live?.abort()
  live = new AbortController()
  const mine = live.signal
  for (let wait = 500; !mine.aborted; wait = Math.min(2 * wait, 15000)) {
    try {
      const reader = (await call('GET', 'events', undefined, mine)).pipeThrough(new TextDecoderStream()).getReader()
      for (let text = ''; ;) {
        const {value, done} = await reader.read()
        if (done) break
        text += value
        for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
          list(JSON.parse(text.slice(6, end)))
          wait = 500
        }
      }
    } catch (e) {
      if (mine.aborted) return
    }
    problem('The board does not answer. What you see may be old; it is asked again.')
    await new Promise((done) => setTimeout(done, wait))
  }
}

function age(created) {
  const s = Math.max(0, (Date.now() - new Date(created)) / 1000)
  for (const [unit, size] of [['d', 86400], ['h', 3600], ['m', 60]]) if (s >= size * (unit === 'd' ? 2 : 1)) return Math.floor(s / size) + unit
  return Math.floor(s) + 's'
}
const kind = (row) => row.state.split(' ')[0].replace(/[^a-z]/g, '')
const count = (n, what) => `${n} ${what}${n === 1 ? '' : what.endsWith('x') ? 'es' : 's'}`
const pill = (row) => el('span', {class: 'state ' + (row.state.match(/^ended [1-9]/) ? 'failed' : kind(row))}, row.state)

function list(now) {
  const first = rows === null
  rows = now.rows
  problem((now.notes ?? []).join('\n'))
  draw()
  const current = rows.find((r) => r.name === chosen)
  if (chosen && !current) { toast(`${chosen} is gone.`); choose('') }
  if (current) head(current)
  if (first) route()
}

function draw() {
  if (!rows) return
  const word = $('filter').value.toLowerCase()
  const some = rows.filter((r) => [r.name, r.agent, r.state, r.branch, r.template].join('\n').toLowerCase().includes(word))
  const body = $('list').querySelector('tbody')
  for (const [name, tr] of shown) if (!some.some((r) => r.name === name)) { tr.remove(); shown.delete(name) }
  some.forEach((row, at) => {
    let tr = shown.get(row.name)
    if (!tr) {
      tr = el('tr', {click: () => { location.hash = '/' + row.name }}, Array.from({length: 7}, () => el('td')))
      tr.cells[0].append(el('a', {href: '#/' + row.name}, row.name))
      shown.set(row.name, tr)
    }
    if (body.rows[at] !== tr) body.insertBefore(tr, body.rows[at] ?? null)
    tr.classList.toggle('chosen', row.name === chosen)
    if (tr.dataset.state !== row.state) { tr.cells[1].replaceChildren(pill(row)); tr.dataset.state = row.state }
    const set = (cell, text, warn) => {
      if (tr.cells[cell].textContent !== clean(text)) { tr.cells[cell].textContent = clean(text); tr.cells[cell].title = clean(text) }
      tr.cells[cell].classList.toggle('warn', Boolean(warn))
    }
    set(2, row.agent || '–'); set(3, row.branch || row.workspace); set(4, row.unsaved === '-' ? '–' : row.unsaved, row.unsaved === 'yes')
    set(5, row.refused || '–', row.refused); set(6, age(row.created))
  })
  $('list').querySelector('table').hidden = !some.length
  $('empty').hidden = some.length > 0
  if (!rows.length) empty('No sandboxes', 'A sandbox is an agent at work on a folder of yours, with nothing else within its reach.', button('New sandbox', create, 'primary'))
  else if (!some.length) empty('Nothing matches', 'No sandbox has that in its name, agent, state or branch.')
  const waiting = rows.filter((r) => kind(r) === 'waiting').length
  $('summary').textContent = rows.length ? count(rows.length, 'sandbox') + (waiting ? ` · ${waiting} waiting for you` : '') : ''
  document.title = (waiting ? `(${waiting}) ` : '') + 'Forage'
}

// --- one sandbox ---

function choose(name, page = 'screen') {
  const same = name === chosen && page === tab
  chosen = name; tab = page
  document.querySelector('main').classList.toggle('open', Boolean(name))
  $('detail').hidden = !name
  draw()
  if (same && name) return
  leave()
  if (!name) { $('detail').replaceChildren(); if (location.hash.length > 2) history.replaceState(null, '', '#/'); return }
  const row = rows.find((r) => r.name === name)
  $('detail').replaceChildren(el('div', {class: 'head'}), el('div', {class: 'tabs', role: 'tablist'}), el('div', {class: 'page', role: 'tabpanel'}))
  head(row)
  pages[tab](row, $('detail').querySelector('.page'))
}

const tabs = {screen: () => 'Screen', refused: (row) => row.refused ? `Refused (${row.refused})` : 'Refused', review: () => 'Review'}
let headed = ''

function head(row) {
  const now = JSON.stringify([row, tab])
  const node = $('detail').querySelector('.head')
  if (now === headed && node.childNodes.length) return
  const was = headed && JSON.parse(headed)[0]
  headed = now
  node.replaceChildren(
    el('h2', {}, row.name), pill(row), el('span', {class: 'gap'}),
    row.running ? button('Stop', () => act(row.name, 'stop')) : button('Start', () => act(row.name, 'start')),
    button('Take down', () => down(row.name), 'danger'), button('Close', () => { location.hash = '/' }, 'close'),
    el('p', {class: 'about'}, [row.agent, row.template, row.mode, row.branch, row.workspace, row.reason].filter(Boolean).join(' · '),
      (row.ports ?? []).map((p) => el('span', {class: 'port'}, p))),
    ...(row.page ? [el('p', {class: 'about'}, 'A program inside asks to open a page. A login that comes back to localhost needs `forage-ctl open`. ', el('a', {href: row.page, target: '_blank', rel: 'noopener noreferrer'}, row.page))] : []))
  $('detail').querySelector('.tabs').replaceChildren(...Object.entries(tabs).map(([name, text]) =>
    el('button', {type: 'button', role: 'tab', 'aria-selected': String(name === tab), click: () => { location.hash = `/${row.name}/${name}` }}, text(row))))
  if (was && was.name === row.name && was.running !== row.running && tab === 'screen') { leave(); pages.screen(row, $('detail').querySelector('.page')) }
}

async function act(name, what, body = {}) {
  toast(`${what} ${name} …`)
  try {
    const {said} = await call('POST', about(name, what), body)
    toast(what !== 'allow' && said || `${what} ${name}: done`)
    return true
  } catch (e) { toast(e.message); return false }
}

let leaving = []
function leave() { for (const f of leaving.splice(0)) f() }

// xterm.js writes styles as the policy of this page forbids: as text of an element, and as an attribute.
// The same goes through the object model, which it allows.
function stylesByObject() {
  const make = document.createElement.bind(document), set = Element.prototype.setAttribute
  document.createElement = (tag, options) => {
    const node = make(tag, options)
    if (tag.toLowerCase() !== 'style') return node
    const sheet = new CSSStyleSheet()
    document.adoptedStyleSheets.push(sheet)
    node.remove = () => { document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet); Element.prototype.remove.call(node) }
    Object.defineProperty(node, 'textContent', {get: () => '', set: (text) => sheet.replaceSync(text)})
    return node
  }
  Element.prototype.setAttribute = function (name, value) {
    if (name === 'style') this.style.cssText = value
    else set.call(this, name, value)
  }
  return import('/xterm/xterm.mjs')
}
let xterm = null

const pages = {
  async screen(row, page) {
    drops(row.name, page)
    if (!row.running) {
      page.replaceChildren(el('div', {class: 'bar'}, el('p', {}, 'It does not run. This is the end of its log.')), el('pre', {class: 'log', tabindex: '0'}, 'reading …'))
      const log = page.querySelector('pre')
      try { log.textContent = clean((await call('GET', about(row.name, 'log'))).said || 'The log is empty.') } catch (e) { log.textContent = clean(e.message) }
      log.scrollTop = log.scrollHeight
      return
    }
    let taken = false, socket = null, open = true
    const what = el('p'), flip = button('', () => { taken = !taken; connect() })
    const files = el('input', {type: 'file', multiple: true, hidden: true, change: () => put(row.name, files.files)})
    const box = el('div', {class: 'terminal'})
    const keys = el('div', {class: 'keys', 'aria-label': 'Keys'}, [['Esc', '\x1b'], ['Tab', '\t'], ['^C', '\x03'], ['↑', '\x1b[A'], ['↓', '\x1b[B'], ['←', '\x1b[D'], ['→', '\x1b[C'], ['Enter', '\r']]
      .map(([text, code]) => button(text, () => { terminal.input(code); terminal.focus() })))
    page.replaceChildren(el('div', {class: 'bar'}, what, button('Add files', () => files.click()), files, flip), box, keys)
    const {Terminal} = await (xterm ??= stylesByObject())
    if (!box.isConnected) return
    const terminal = new Terminal({
      fontFamily: getComputedStyle(document.documentElement).getPropertyValue('--mono'), fontSize: 13, scrollback: 0, disableStdin: true,
      linkHandler: {activate() {}}, theme: {background: '#101314', foreground: '#d5dad8', cursor: '#f2c84b'},
    })
    terminal.open(box)
    leaving.push(() => { open = false; socket?.close(); terminal.dispose() })
    const bytes = new TextEncoder()
    // The server lets it pass where the configuration allows it. Who only looks keeps their clipboard.
    terminal.parser.registerOscHandler(52, (text) => {
      if (taken) try { navigator.clipboard?.writeText(new TextDecoder().decode(Uint8Array.from(atob(text.split(';')[1]), (c) => c.charCodeAt(0)))) } catch { /* it is no text */ }
      return true
    })
    terminal.onData((text) => { if (taken && socket.readyState === 1) for (let at = 0; at < text.length; at += 8192) socket.send(bytes.encode(text.slice(at, at + 8192))) })
    terminal.onResize(({cols, rows}) => { if (taken && socket.readyState === 1) socket.send(JSON.stringify({columns: cols, rows})) })
    // How many characters the box has room for, at the size of the font that is used to write.
    const room = () => {
      const cell = box.querySelector('.xterm-screen').getBoundingClientRect(), style = getComputedStyle(box)
      const wide = box.clientWidth - 2 * parseFloat(style.paddingLeft), high = box.clientHeight - 2 * parseFloat(style.paddingTop)
      return {columns: Math.max(20, Math.floor(wide / (cell.width / terminal.cols))), rows: Math.max(5, Math.floor(high / (cell.height / terminal.rows)))}
    }
    // Who looks sees the session as wide as it is: the font gives way, as far as it can be read.
    const look = ({columns, rows}) => {
      terminal.options.fontSize = 13
      terminal.resize(columns, rows)
      const wide = box.querySelector('.xterm-screen').getBoundingClientRect().width
      terminal.options.fontSize = Math.max(9, Math.min(13, Math.floor(26 * (box.clientWidth - 20) / wide) / 2))
    }
    const watch = new ResizeObserver(() => { if (taken) { const at = room(); terminal.resize(at.columns, at.rows) } })
    watch.observe(box)
    leaving.push(() => watch.disconnect())
    function connect() {
      socket?.close()
      what.textContent = taken ? 'You type to the agent. Ctrl-b d gives the screen back.' : 'You look. Nothing that you type goes inside.'
      flip.textContent = taken ? 'Give back' : 'Take over'
      flip.className = taken ? '' : 'primary'
      box.classList.toggle('taken', taken)
      terminal.reset()
      terminal.options.disableStdin = !taken
      terminal.options.fontSize = 13
      const at = room()
      if (taken) terminal.resize(at.columns, at.rows)
      const mine = socket = new WebSocket(`${location.origin.replace('http', 'ws')}/api/${about(row.name, 'screen')}?take=${taken ? 1 : 0}&columns=${at.columns}&rows=${at.rows}`, ['forage-board', key])
      mine.binaryType = 'arraybuffer'
      let said = 'the connection was lost'
      mine.onmessage = ({data}) => {
        if (mine !== socket) return
        if (data instanceof ArrayBuffer) return terminal.write(new Uint8Array(data))
        const message = JSON.parse(data)
        if (message.end) said = [message.end, message.hint].filter(Boolean).join('\n')
        else if (!taken) look(message)
      }
      mine.onclose = () => {
        if (mine !== socket || !open) return
        if (taken) { taken = false; if (rows.find((r) => r.name === row.name)?.running) return connect() }
        what.textContent = clean(said)
        flip.textContent = 'Connect again'
        flip.onclick = null
        taken = false
        flip.replaceWith(button('Connect again', () => { leave(); pages.screen(row, page) }))
      }
      if (taken) terminal.focus()
    }
    connect()
  },

  async refused(row, page) {
    page.replaceChildren(el('p', {class: 'soft'}, 'asking …'))
    let all
    try { all = (await call('GET', about(row.name, 'refusals'))).refusals ?? [] } catch (e) { return page.replaceChildren(el('p', {}, e.message)) }
    if (!all.length) return page.replaceChildren(el('p', {class: 'soft'}, 'Nothing was refused since its start, or all of it is allowed now.'))
    page.replaceChildren(
      el('p', {class: 'soft'}, 'The sandbox asked for these and did not get them. What you allow, it may reach until you take it down. The names come from inside.'),
      el('div', {class: 'box'}, el('ul', {}, all.map((one) => {
        const li = el('li', {class: 'refusal'}, el('span', {class: 'grow mono'}, one.text, one.why ? el('div', {class: 'soft'}, one.why) : null))
        if (one.allow) {
          li.append(button(`Allow ${one.allow}` + (one.mode ? ` (${one.mode})` : ''), async () => { if (await act(row.name, 'allow', {allow: one.allow, mode: one.mode ?? ''})) li.replaceChildren(el('span', {class: 'grow soft'}, `${one.allow} is allowed.`)) }),
            button('Leave refused', () => li.remove()))
        }
        return li
      }))),
      el('p', {class: 'soft'}, 'To allow one always, add it to allowedHosts of the template.'))
  },

  async review(row, page) {
    page.replaceChildren(el('p', {class: 'soft'}, 'looking at the work …'))
    let said
    try { said = await call('GET', about(row.name, 'review')) } catch (e) { return page.replaceChildren(el('pre', {}, e.message)) }
    if (!page.isConnected || tab !== 'review') return
    page.replaceChildren()
    for (const note of said.notes ?? []) page.append(el('p', {class: 'soft'}, note))
    const boxes = []
    for (const part of said.parts ?? []) {
      const r = part.review
      if (said.parts.length > 1) page.append(el('h2', {}, r.part))
      if (r.findings?.length) {
        page.append(el('div', {class: 'box first'}, el('h3', {}, 'Look at these first: tools of your machine execute them'),
          el('ul', {}, r.findings.map((f) => el('li', {}, el('span', {class: 'mono'}, f.path), el('span', {class: 'soft'}, f.why))))))
      }
      if (r.left?.length) page.append(el('div', {class: 'box'}, el('h3', {}, 'Not part of this review, nor of what apply brings'), el('ul', {}, r.left.map((l) => el('li', {}, el('span', {class: 'mono'}, l.path), el('span', {class: 'soft'}, l.why))))))
      if (r.commits?.length) page.append(el('div', {class: 'box'}, el('h3', {}, `${count(r.commitsCount, 'commit')} on ${r.branch}`), el('ul', {}, r.commits.map((c) => el('li', {}, el('span', {class: 'mono soft'}, c.id.slice(0, 10)), el('span', {}, c.subject))))))
      for (const note of r.notes ?? []) page.append(el('p', {class: 'soft'}, note))
      const files = part.files ?? [], cut = files.filter((f) => f.cut).length
      if (cut) page.append(el('p', {class: 'warn'}, `${count(cut, 'file')} of these can't be shown whole, and do not count as shown. In a terminal, forage-ctl diff ${row.name} shows them.`))
      for (const f of files) {
        const [node, choice] = file(f, changed)
        boxes.push({...choice, part})
        page.append(node)
      }
    }
    if (!boxes.length) return page.append(el('p', {class: 'soft'}, 'There is nothing to review: no file differs.'))
    const text = el('p'), go = button('', () => apply(row.name, boxes), 'primary')
    page.append(el('div', {class: 'foot'}, text, go))
    changed()
    function changed() {
      const n = boxes.filter((b) => b.box.checked || b.box.indeterminate).length, hunks = boxes.flatMap(hunksOf).length
      text.textContent = n ? hunks ? `${count(hunks, 'single hunk')} among them` : '' : 'Choose files, or apply all.'
      go.textContent = n ? `Apply ${n} of ${boxes.length} …` : `Apply all ${boxes.length} …`
    }
  },
}

// The hunks that are chosen of a file that is chosen in part.
const hunksOf = (b) => b.box.indeterminate ? b.hunks.flatMap((h, i) => h.checked ? [i] : []) : []

// file is what was done to a file, as the server has divided it, and what chooses it.
function file(f, changed) {
  const box = el('input', {type: 'checkbox', change: () => { for (const h of hunks) h.checked = box.checked; changed() }}), hunks = []
  const some = () => {
    const n = hunks.filter((h) => h.checked).length
    box.checked = n === hunks.length
    box.indeterminate = n > 0 && n < hunks.length
    changed()
  }
  const node = el('div', {class: 'file'}, el('label', {}, box, el('span', {}, f.name), el('span', {class: 'soft'}, f.what + (f.uncommitted ? ', not committed' : '')),
    f.binary ? el('span', {class: 'soft'}, 'binary') : el('span', {}, el('span', {class: 'plus'}, '+' + f.added), ' ', el('span', {class: 'minus'}, '−' + f.removed))))
  const diff = el('div', {class: 'diff', tabindex: '0'}, (f.hunks ?? []).flatMap((h) => {
    const choice = f.divisible && el('input', {type: 'checkbox', change: some})
    if (choice) hunks.push(choice)
    return [el(choice ? 'label' : 'div', {class: 'at'}, choice, h.head), ...(h.lines ?? []).map((line) => el('div', {class: {'+': 'add', '-': 'del', '\\': 'meta'}[line[0]]}, line))]
  }))
  if (f.cut) diff.append(el('div', {class: 'warn'}, 'There is more, which is not shown.'))
  if (diff.childNodes.length) node.append(diff)
  return [node, {box, hunks, id: f.id}]
}

// --- dialogs ---

function dialog(title, ...content) {
  const node = el('dialog', {close: () => node.remove()}, el('div', {class: 'stack'}, el('h2', {}, title), ...content))
  document.body.append(node)
  node.showModal()
  return node
}

async function apply(name, boxes) {
  const some = boxes.every((b) => b.box.checked) ? [] : boxes.filter((b) => b.box.checked || b.box.indeterminate)
  const parts = [...new Set((some.length ? some : boxes).map((b) => b.part))].map((part) =>
    ({part: part.part, content: part.content, files: some.filter((b) => b.part === part).map((b) => ({id: b.id, hunks: b.box.indeterminate ? hunksOf(b) : null}))}))
  const text = el('pre', {}, 'checking …'), go = button('Apply', null, 'primary')
  go.disabled = true
  const asked = dialog(`Apply the work of ${name}`, el('p', {class: 'soft'}, some.length ? count(some.length, 'file') + ' of your choice' : 'Everything that is shown'), text,
    el('div', {class: 'bar'}, button('Cancel', () => asked.close()), go))
  try {
    text.textContent = clean((await call('POST', about(name, 'apply'), {parts, dryRun: true})).said)
    go.disabled = false
  } catch (e) { text.textContent = clean(e.message) }
  go.addEventListener('click', async () => {
    go.disabled = true
    try { text.textContent = clean((await call('POST', about(name, 'apply'), {parts, dryRun: false})).said) } catch (e) { text.textContent = clean(e.message) }
    go.replaceWith(button('Close', () => asked.close(), 'primary'))
  })
}

async function down(name) {
  const text = el('p', {}, 'asking what would be lost …'), go = button('Take down', null, 'danger')
  go.disabled = true
  const asked = dialog(`Take ${name} down`, text, el('div', {class: 'bar'}, button('Cancel', () => asked.close()), go))
  let force = false
  try {
    const {loses} = await call('GET', about(name, 'loses'))
    force = Boolean(loses)
    text.textContent = clean(loses ? `${loses[0].toUpperCase() + loses.slice(1)}. If you take it down all the same, Forage keeps that work for 30 days.` : 'Its work is saved, or in your own folder. Nothing is lost.')
    if (force) go.textContent = 'Take down, keep the work 30 days'
    go.disabled = false
  } catch (e) { text.textContent = clean(e.message) }
  go.addEventListener('click', () => { asked.close(); act(name, 'down', {force}) })
}

async function create() {
  let choices
  try { choices = await call('GET', 'choices') } catch (e) { return toast(e.message) }
  const option = (value, text = value) => el('option', {value, selected: value === choices.default}, text)
  const form = el('form', {method: 'dialog'},
    el('label', {}, el('span', {}, 'Name'), el('input', {name: 'name', required: true, pattern: '[a-z0-9][a-z0-9\\-]{0,62}', title: 'small letters, digits and -', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false'})),
    el('div', {class: 'two'},
      el('label', {}, el('span', {}, 'Template'), el('select', {name: 'template'}, choices.templates.map((t) => option(t.name)))),
      el('label', {}, el('span', {}, 'Works on'), el('select', {name: 'mode'}, option('git-worktree', 'a git worktree of its own'), option('direct', 'the folder itself'), option('jj', 'a jj workspace of its own'), option('clone', 'a clone')))),
    el('label', {}, el('span', {}, 'Folder or repository'), el('input', {name: 'workspace', required: true, list: 'folders', placeholder: '~/project', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false'})),
    el('datalist', {id: 'folders'}, (choices.folders ?? []).map((f) => el('option', {value: f}))),
    el('label', {}, el('span', {}, 'Branch (optional)'), el('input', {name: 'branch', autocomplete: 'off', autocapitalize: 'none', spellcheck: 'false'})),
    el('label', {}, el('span', {}, 'Task for the agent (optional)'), el('textarea', {name: 'task'})),
    el('pre', {hidden: true}), el('div', {class: 'bar'}, button('Cancel', () => asked.close()), el('button', {class: 'primary'}, 'Create')))
  form.addEventListener('submit', async (event) => {
    event.preventDefault()
    const wanted = Object.fromEntries(new FormData(form)), go = form.querySelector('.primary'), said = form.querySelector('pre')
    go.disabled = true; go.textContent = 'Creating …'; said.hidden = true
    try {
      await call('POST', 'sandboxes', wanted)
      asked.close()
      toast(`${wanted.name} runs.`)
    } catch (e) { said.textContent = clean(e.message); said.hidden = false }
    go.disabled = false; go.textContent = 'Create'
  })
  const asked = dialog('New sandbox', form)
  form.elements.name.focus()
}

// --- files ---

function drops(name, page) {
  page.ondragover = (e) => { e.preventDefault(); page.classList.add('dropping') }
  page.ondragleave = () => page.classList.remove('dropping')
  page.ondrop = (e) => { e.preventDefault(); page.classList.remove('dropping'); put(name, e.dataTransfer.files) }
}
async function put(name, files) {
  const said = []
  for (const one of files) {
    toast(`${one.name} …`)
    try { said.push('added ' + (await call('PUT', about(name, 'files?name=' + encodeURIComponent(one.name)), one)).said) } catch (e) { said.push(e.message) }
  }
  toast(said.join('\n'))
}

// --- keys, addresses, the beginning ---

function route() {
  const [, name = '', page = 'screen'] = location.hash.slice(1).split('/')
  if (rows) choose(rows.some((r) => r.name === name) ? name : '', tabs[page] ? page : 'screen')
}
addEventListener('hashchange', () => location.hash.startsWith('#token=') ? begin() : route())
addEventListener('keydown', (e) => {
  if (e.target.closest('input, textarea, select, dialog, .terminal') || e.ctrlKey || e.metaKey || e.altKey) return
  const names = [...$('list').querySelectorAll('td a')], at = names.findIndex((a) => a.textContent === chosen || a === document.activeElement)
  const to = {j: at + 1, ArrowDown: at + 1, k: at - 1, ArrowUp: at - 1}[e.key]
  if (to !== undefined && names[to] && (chosen === '' || e.key === 'j' || e.key === 'k')) { names[to].focus(); if (chosen) names[to].click(); e.preventDefault() }
  if (e.key === '/') { $('filter').focus(); e.preventDefault() }
  if (e.key === 'n') { create(); e.preventDefault() }
  if (e.key === 'Escape') location.hash = '/'
  const page = Object.keys(tabs)[Number(e.key) - 1]
  if (chosen && page) location.hash = `/${chosen}/${page}`
})
$('filter').addEventListener('input', draw)
$('new').addEventListener('click', create)
document.addEventListener('visibilitychange', () => { if (document.hidden) live?.abort(); else if (key) listen() })
setInterval(() => { if (!document.hidden) draw() }, 30000)
for (const type of ['dragover', 'drop']) addEventListener(type, (e) => e.preventDefault())

async function begin() {
  const token = location.hash.startsWith('#token=') ? location.hash.slice(7) : ''
  if (token) {
    history.replaceState(null, '', '#/')
    try {
      key = (await call('POST', 'login', {token})).key
      localStorage.setItem('key', key)
    } catch (e) { problem(e.message); return signedOut() }
  }
  if (!key) return signedOut()
  await listen()
}
begin()
