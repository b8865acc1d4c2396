package config

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// FuzzLoad sets one variable to anything. Either it is accepted, and the settings that
// Print shows read as the same ones again; or it is refused, with lines that are fit for a
// terminal and name a variable. Either way no secret is shown.
func FuzzLoad(f *testing.F) {
	for i, s := range settings {
		f.Add(uint8(i), s.def)
	}
	for _, scene := range slices.Concat(scenes(f, "bad"), scenes(f, "good")) {
		for _, pair := range scene.env {
			name, value, _ := strings.Cut(pair, "=")
			if i := slices.IndexFunc(settings, func(s setting) bool { return s.name == name }); i >= 0 {
				f.Add(uint8(i), value)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, value string) {
		s := settings[int(which)%len(settings)]
		value = strings.ReplaceAll(value, "hush", "*") // hush marks a secret, see base
		switch {
		case s.name == "REDIS_URL": // of which only the user and the password are secret
			value = strings.Replace(value, "//", "//app:hush@", 1)
		case s.secret:
			value = strings.ReplaceAll(value, "=", "=hush") + "hush"
		}
		c, warnings, err := load(s.name + "=" + value)
		text := strings.Join(said(warnings, err), "\n")
		if err != nil {
			var faults Faults
			if !errors.As(err, &faults) || len(faults) == 0 || c != nil {
				t.Fatalf("refused without a fault: %v", err)
			}
			for _, fault := range faults {
				if !slices.Contains(knownNames, fault.Name) {
					t.Fatalf("a fault of %q", fault.Name)
				}
			}
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) ||
				strings.Count(err.Error(), "\n") != len(faults)-1 {
				t.Fatalf("not fit for a terminal: %q", text)
			}
		} else {
			text += "\n" + printed(c)
		}
		if strings.Contains(text, "hush") {
			t.Fatalf("%s: a secret is shown:\n%s", s.name, text)
		}
		if err != nil || s.secret || strings.ContainsFunc(value, unicode.IsControl) || !utf8.ValidString(value) {
			return
		}
		var env []string
		for _, s := range settings {
			if !s.secret {
				env = append(env, s.name+"="+c.shown[s.name])
			}
		}
		again, _, err := load(env...)
		if err != nil {
			t.Fatalf("what Print shows is refused:\n%v", err)
		}
		for _, s := range settings {
			was, is := reflect.ValueOf(*c).FieldByIndex(s.field.Index).Interface(), reflect.ValueOf(*again).FieldByIndex(s.field.Index).Interface()
			if s.name != "HOSPITALS" && !reflect.DeepEqual(was, is) {
				t.Fatalf("%s=%q reads differently: %v, %v", s.name, c.shown[s.name], was, is)
			}
		}
	})
}

func printed(c *Config) string {
	var text bytes.Buffer
	c.Print(&text)
	return text.String()
}

// FuzzSchedule checks that what is accepted as a schedule goes on firing, at least a second
// apart.
func FuzzSchedule(f *testing.F) {
	for _, s := range []string{"@every 1m", "*/5 9-18 * * mon-fri", "0 0 29 2 *", "0 0 30 2 *", "TZ=UTC", "@every 1ms", ",,,,,,", "0 0 31 */2 ?", "59 59 23 31 12 6", "@yearly"} {
		f.Add(s)
	}
	zone, err := time.LoadLocation("America/New_York")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		schedule, err := parseSchedule(expression, zone)
		if err != nil {
			return
		}
		now := time.Date(2026, 11, 29, 12, 0, 0, 1, time.UTC)
		for range 3 {
			next := schedule.Next(now)
			if next.Sub(now).Truncate(time.Second) < 0 || !next.After(now) {
				t.Fatalf("%q: after %v comes %v", expression, now, next)
			}
			now = next
		}
	})
}
