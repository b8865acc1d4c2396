package test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// compose loads deploy/compose.yaml as `docker compose` does, schema, interpolation and all.
func compose(t *testing.T, env map[string]string, profiles ...string) *types.Project {
	t.Helper()
	path := filepath.Join(deploy, "compose.yaml")
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: deploy, ConfigFiles: []types.ConfigFile{{Filename: path}}, Environment: maps.Clone(env),
	}, func(o *loader.Options) { o.SetProjectName("alimtalk-syncer", false); o.Profiles = profiles })
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func TestComposeFileIsWhatComposeTakes(t *testing.T) {
	t.Parallel()
	env := commented(t, ".env.example")
	env["SUREM_USER_CODE"] = "clinic"
	project := compose(t, env)
	if names := project.ServiceNames(); !slices.Equal(names, []string{"redis", "syncer"}) {
		t.Errorf("without a profile it runs %v", names)
	}
	syncer := project.Services["syncer"]
	settings := make(map[string]string)
	for name, value := range syncer.Environment {
		settings[name] = *value
	}
	dir := write(t, exampleFiles) + "/"
	checkSettings(t, settings, map[string]string{"/run/secrets/": dir, "/etc/syncer/": dir})
	for name := range env {
		if _, found := settings[name]; !found {
			t.Errorf(".env.example offers %s, and the syncer does not get it", name)
		}
	}
	if wait := time.Duration(*syncer.StopGracePeriod); wait <= 20*time.Second {
		t.Errorf("it is killed after %v, SHUTDOWN_GRACE is 20s", wait)
	}
	if !slices.Equal(syncer.HealthCheck.Test, []string{"CMD", "/syncer", "health"}) {
		t.Errorf("the health check is %v", syncer.HealthCheck.Test)
	}
	for _, s := range project.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
			t.Errorf("%s is not locked down", s.Name)
		}
	}
}

func TestComposeDemoNeedsNoSetting(t *testing.T) {
	t.Parallel()
	demo, found := compose(t, nil, "demo").Services["demo"]
	if !found || !slices.Equal(demo.Command, []string{"demo"}) || len(demo.Environment)+len(demo.Secrets)+len(demo.DependsOn) > 0 {
		t.Errorf("%+v", demo)
	}
	ok(t, binary, "demo", "-h")
}
