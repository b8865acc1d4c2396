package redisconn

import (
	"strings"
	"testing"
)

// FuzzParse: what is taken shows none of its secrets and reads again as it is shown; what is
// refused is not quoted.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"redis://redis.example:6379/3?read_timeout=500ms",
		"rediss://s1.example:26379?master_name=m&addr=s2.example:26379&username=app",
		"redis://c1.example:7000?addr=c2.example:7000",
		"redis://c1.example:7000?addr=x@c2.example:7000",
		"redis://[::1]:7000/0?route_randomly=1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ReplaceAll(s, "hush", "*")
		s = strings.Replace(s, "//", "//app:hush@", 1)
		if before, parameters, ok := strings.Cut(s, "?"); ok {
			s = before + "?password=hush&" + parameters
		}
		for mode := range forms {
			server, err := Parse(mode, s, Files{})
			if err != nil {
				if !strings.HasPrefix(err.Error(), "must ") || strings.Contains(err.Error(), "hush") {
					t.Fatalf("%s: %v", mode, err)
				}
				continue
			}
			shown := server.String()
			if strings.Contains(shown, "hush") {
				t.Fatalf("%s: %s is shown as %s", mode, s, shown)
			}
			shown = strings.Replace(shown, "[hidden]@", "", 1)
			if again, err := Parse(mode, shown, Files{}); err != nil || again.String() != shown {
				t.Fatalf("%s: %s, as it is shown, reads as %v, %v", mode, shown, again, err)
			}
			if err := server.Connect().Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
