package statuspage

import (
	"errors"
	"flag"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"alimtalk-syncer/internal/hospitals"
	"alimtalk-syncer/internal/httpapi"
)

var screenshots = flag.String("screenshots", "", "a `folder` for pictures of the status page")

const token = "page-token-1111"

// serve serves a scene as the daemon does, and returns the address for a browser that knows
// the token.
func serve(t testing.TB, s *scene) string {
	t.Helper()
	o := s.options()
	server := httptest.NewServer(httpapi.New(httpapi.Options{
		Tokens: []hospitals.Secret{token}, Metrics: prometheus.NewRegistry(), Log: zerolog.Nop(),
		Page: Page(o), Status: JSON(o), Healthy: o.Healthy,
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "http://", "http://anybody:"+token+"@", 1) + "/"
}

// look is what a script finds in the page, run from outside.
type look struct {
	Title, Language, Headline, Refresh       string
	Width, Inner                             float64 // of the document and of the window
	TooWide                                  []string
	Contrast                                 float64 // the lowest of any text
	Faintest                                 string
	Background                               float64 // relative luminance of the paper
	Smallest                                 float64 // font size, px
	Scripts, Images, Frames, Open, Headlines int
	Headings                                 []string
}

// lookScript measures contrast as WCAG 2.2 does, text against the nearest opaque background.
const lookScript = `(() => {
  const rgb = s => s.match(/[\d.]+/g).map(Number);
  const luminance = s => { const [r, g, b] = rgb(s).slice(0, 3).map(c => (c /= 255) <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor, [, , , a] = rgb(c); if (a === undefined || a > .99) return c; } return 'rgb(255, 255, 255)'; };
  let contrast = 99, faintest = '', smallest = 99;
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walk.nextNode();) {
    const e = n.parentElement;
    if (!n.data.trim() || !e.checkVisibility()) continue;
    const style = getComputedStyle(e), a = luminance(style.color), b = luminance(behind(e));
    const c = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (c < contrast) { contrast = c; faintest = n.data.trim(); }
    smallest = Math.min(smallest, parseFloat(style.fontSize));
  }
  const visible = [...document.body.querySelectorAll('*')].filter(e => e.checkVisibility() && !e.closest('thead'));
  return {
    title: document.title, language: document.documentElement.lang, headline: document.querySelector('.line').textContent,
    refresh: document.querySelector('meta[http-equiv=refresh]').content,
    width: document.documentElement.scrollWidth, inner: innerWidth,
    tooWide: visible.filter(e => { const r = e.getBoundingClientRect(); return r.right > innerWidth + .5 || r.left < -.5; }).map(e => e.tagName + ' ' + e.textContent.trim().slice(0, 40)),
    contrast, faintest, smallest, background: luminance(getComputedStyle(document.body).backgroundColor),
    scripts: document.scripts.length, images: document.images.length, frames: frames.length,
    open: document.querySelectorAll('details[open]').length, headlines: document.querySelectorAll('.headline').length,
    headings: [...document.querySelectorAll('h2')].map(e => e.textContent),
  };
})()`

// judge holds the open page to what every page must be.
func (b *browser) judge(name, scheme string) look {
	b.t.Helper()
	var l look
	b.eval(lookScript, &l)
	if l.Width > l.Inner || len(l.TooWide) > 0 {
		b.t.Errorf("%s: %v px of %v px; beyond the edge: %q", name, l.Width, l.Inner, l.TooWide)
	}
	if l.Contrast < 4.5 {
		b.t.Errorf("%s: the contrast of %q is %.1f", name, l.Faintest, l.Contrast)
	}
	if l.Smallest < 12 {
		b.t.Errorf("%s: text of %v px", name, l.Smallest)
	}
	if dark := l.Background < 0.1; dark != (scheme == "dark") {
		b.t.Errorf("%s: the luminance of the paper is %v", name, l.Background)
	}
	if l.Scripts+l.Images+l.Frames != 0 || l.Headlines != 1 {
		b.t.Errorf("%s: %d scripts, %d images, %d frames, %d headlines", name, l.Scripts, l.Images, l.Frames, l.Headlines)
	}
	for _, kind := range []string{"Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening"} {
		if happened := b.happened(kind); len(happened) > 0 {
			b.t.Errorf("%s: %s %q", name, kind, happened)
		}
	}
	if *screenshots != "" {
		b.screenshot(filepath.Join(*screenshots, name+".png"))
	}
	return l
}

func TestThePageInChromium(t *testing.T) {
	b := newBrowser(t)
	bad := busy()
	bad.health.Redis, bad.health.SureM, bad.stuck = "away", "away", errors.New("a tick is overdue for 3m0s")
	every, some := []int{390, 760, 1280}, []int{390}
	for _, p := range []struct {
		name     string
		scene    *scene
		widths   []int
		headline map[string]string // a part, by language
	}{
		{"calm", calm(12), every, map[string]string{"en": "All is well", "ko": "모두 정상입니다"}},
		{"busy", busy(), every, map[string]string{"en": "2 of 120 hospitals fail", "ko": "병원 120곳 중 2곳이 실패"}},
		{"bad", bad, every, map[string]string{"en": "Redis is away", "ko": "Redis에 연결되지 않습니다"}},
		{"new", &scene{health: calm(0).health, version: "dev"}, some, map[string]string{"ko": "아직 끝난 동기화가 없습니다"}},
		{"thousand", calm(1000), some, map[string]string{"en": "All is well"}},
	} {
		url := serve(t, p.scene)
		for language, headline := range p.headline {
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range p.widths {
					name := fmt.Sprintf("%s-%s-%d-%s", p.name, scheme, width, language)
					b.open(url, scheme, language, width)
					l := b.judge(name, scheme)
					if !strings.Contains(l.Headline, headline) || l.Language != language || l.Open != 0 || l.Refresh != "15" {
						t.Errorf("%s: %+v", name, l)
					}
				}
			}
		}
	}
}

func TestTheFilterInChromium(t *testing.T) {
	b := newBrowser(t)
	b.open(serve(t, busy()), "light", "en", 390)
	var asked bool
	b.loaded(func() {
		b.eval(`(() => { document.querySelector('input').value = 'h0004'; document.querySelector('form').requestSubmit(); return true })()`, &asked)
	})
	l := b.judge("filtered", "light")
	var rows []string
	b.eval(`[...document.querySelectorAll('tbody th')].filter(e => e.checkVisibility()).map(e => e.textContent)`, &rows)
	want := "[H00041 H00040 H00042 H00043 H00044 H00045 H00046 H00047 H00048 H00049]"
	var search string
	b.eval(`location.search + ' ' + document.querySelector('input').value`, &search)
	if fmt.Sprint(rows) != want || l.Open != 1 || search != "?q=h0004 h0004" {
		t.Errorf("rows %v, %d open, %s", rows, l.Open, search)
	}
	b.loaded(func() {
		b.eval(`(() => { document.querySelector('form a').click(); return true })()`, &asked)
	})
	b.eval(`location.search + document.querySelector('input').value`, &search)
	if search != "" && search != "?" {
		t.Errorf("after showing all: %q", search)
	}
}

func TestHostileTextDoesNothingInChromium(t *testing.T) {
	b := newBrowser(t)
	s := busy()
	s.passes.Changes, s.passes.Recovered = nil, s.passes.Recovered[:1]
	for i, bad := range hostile {
		s.change("H00001", bad, bad, bad, time.Duration(i)*time.Minute, time.Minute)
		s.passes.Hospitals[i+50].Error = bad
	}
	all := strings.Join(hostile, " ")
	s.passes.Hospitals[7].Error, s.passes.Recovered[0].Error, s.version, s.stuck = all, all, all, errors.New(all)
	b.open(serve(t, s)+"?open", "dark", "en", 390)
	l := b.judge("hostile", "dark")
	if len(l.Headings) != 4 || l.Title != "✕ alimtalk-syncer" {
		t.Errorf("%q %q", l.Title, l.Headings)
	}
	if requests := b.happened("Network.requestWillBeSent"); len(requests) > 2 { // the page and its icon
		t.Errorf("%d requests: %q", len(requests), requests)
	}
	var codes []string
	b.eval(`[...document.querySelectorAll('code')].map(e => e.textContent)`, &codes)
	for i, bad := range hostile {
		if i < len(codes) && codes[i] != visible(bad) {
			t.Errorf("code %q shows as %q", bad, codes[i])
		}
	}
	if len(codes) != len(hostile) {
		t.Errorf("%d codes, want %d", len(codes), len(hostile))
	}
}
