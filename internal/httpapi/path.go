package httpapi

import (
	"net/http"
	"net/url"
	"path"
	"strings"
)

// canonical returns r with its path spelled so that ServeMux takes it as it stands, and
// false when it is no path at all ("OPTIONS *"). Left alone, ServeMux answers empty and dot
// segments with a redirect, and splits a segment at an escaped slash when some other byte of
// the path should have been escaped and was not. An empty segment becomes a blank, which no
// route, id or code is; so do hostile paths arrive at the checks of what they were meant to be.
func canonical(r *http.Request) (*http.Request, bool) {
	if !strings.HasPrefix(r.URL.Path, "/") {
		return r, false
	}
	if r.URL.RawPath == "" && path.Clean(r.URL.Path) == r.URL.Path {
		return r, true
	}
	raw := r.URL.RawPath
	if raw == "" {
		raw = r.URL.EscapedPath()
	}
	segments := strings.Split(raw[1:], "/")
	spelled := make([]string, len(segments))
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err != nil {
			return r, false
		}
		switch segments[i], spelled[i] = decoded, url.PathEscape(decoded); decoded {
		case "":
			segments[i], spelled[i] = " ", "%20"
		case ".", "..":
			spelled[i] = strings.ReplaceAll(decoded, ".", "%2E")
		}
	}
	u := *r.URL
	u.Path, u.RawPath = "/"+strings.Join(segments, "/"), "/"+strings.Join(spelled, "/")
	c := *r
	c.URL = &u
	return &c, true
}

// lastSegment answers 404 where a pattern's last wildcard has taken more than one segment.
func lastSegment(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Count(r.URL.EscapedPath(), "/") > strings.Count(r.Pattern, "/") {
			notFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}
