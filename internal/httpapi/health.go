package httpapi

import (
	"net/http"
	"strings"
)

func (s *server) healthz(w http.ResponseWriter, _ *http.Request) {
	if err := s.Healthy(); err != nil {
		lines(w, http.StatusServiceUnavailable, []string{err.Error()})
		return
	}
	lines(w, http.StatusOK, []string{"ok"})
}

func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	text, ok := s.Ready()
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	if len(text) == 0 {
		text = []string{strings.ToLower(http.StatusText(status))}
	}
	lines(w, status, text)
}

func lines(w http.ResponseWriter, status int, text []string) {
	write(w, "text/plain; charset=utf-8", status, strings.Join(text, "\n")+"\n")
}
