package test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/json"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"alimtalk-syncer/internal/redistest"
)

// cluster is what a kustomization would make.
type cluster struct {
	deployments map[string]apps.Deployment
	cronJobs    map[string]batch.CronJob
	services    map[string]core.Service
	accounts    map[string]core.ServiceAccount
	configMaps  map[string]core.ConfigMap
	secrets     map[string]core.Secret
	budgets     map[string]policy.PodDisruptionBudget
	policies    map[string]networking.NetworkPolicy
	monitors    map[string]monitoring.ServiceMonitor
}

// kustomize builds deploy/kubernetes/example with these files in it and changes to its
// kustomization, and decodes every resource into its type; a field that the type does not have
// fails the test.
func kustomize(t *testing.T, files map[string]string, changes ...string) cluster {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(deploy, "kubernetes"))); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, "example", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "example", "kustomization.yaml")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		if !strings.Contains(string(b), changes[i]) {
			t.Fatalf("the example does not say %q", changes[i])
		}
	}
	if err := os.WriteFile(path, []byte(strings.NewReplacer(changes...).Replace(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var c cluster
	for _, r := range resources.Resources() {
		text := r.MustYaml()
		switch kind := r.GetGvk().ApiVersion() + " " + r.GetKind(); kind {
		case "apps/v1 Deployment":
			put(t, &c.deployments, r.GetName(), text)
		case "batch/v1 CronJob":
			put(t, &c.cronJobs, r.GetName(), text)
		case "v1 Service":
			put(t, &c.services, r.GetName(), text)
		case "v1 ServiceAccount":
			put(t, &c.accounts, r.GetName(), text)
		case "v1 ConfigMap":
			put(t, &c.configMaps, r.GetName(), text)
		case "v1 Secret":
			put(t, &c.secrets, r.GetName(), text)
		case "policy/v1 PodDisruptionBudget":
			put(t, &c.budgets, r.GetName(), text)
		case "networking.k8s.io/v1 NetworkPolicy":
			put(t, &c.policies, r.GetName(), text)
		case "monitoring.coreos.com/v1 ServiceMonitor":
			put(t, &c.monitors, r.GetName(), text)
		default:
			t.Errorf("%s: no type to decode it into", kind)
		}
		if r.GetNamespace() != "alimtalk" {
			t.Errorf("%s %s is in namespace %q", r.GetKind(), r.GetName(), r.GetNamespace())
		}
	}
	return c
}

func put[T any](t *testing.T, m *map[string]T, name, text string) {
	t.Helper()
	var v T
	document, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	faults, err := json.UnmarshalStrict(document, &v) // as the API server decodes: case counts
	if err != nil || len(faults) > 0 {
		t.Errorf("%s: %v %v\n%s", name, err, faults, text)
	}
	if *m == nil {
		*m = make(map[string]T)
	}
	(*m)[name] = v
}

const name = "alimtalk-syncer"

func TestDeploymentIsWhatKubernetesTakes(t *testing.T) {
	t.Parallel()
	c := kustomize(t, nil, "#components:", "components:", "#  - ../components/servicemonitor", "  - ../components/servicemonitor")
	d, found := c.deployments[name]
	if !found {
		t.Fatal("no Deployment")
	}
	container := checkPod(t, c, d.Spec.Template.Spec)
	env := checkPodSettings(t, c, container)

	if *d.Spec.Replicas < 2 || env["FLEET"] != "true" {
		t.Errorf("%d replicas, FLEET=%s", *d.Spec.Replicas, env["FLEET"])
	}
	delay, grace := duration(t, env["SHUTDOWN_DELAY"]), duration(t, env["SHUTDOWN_GRACE"])
	if wait := time.Duration(*d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second; wait <= delay+grace {
		t.Errorf("it is killed after %v, while it may take %v", wait, delay+grace)
	}
	ready := container.ReadinessProbe
	if unready := time.Duration(ready.PeriodSeconds*ready.FailureThreshold) * time.Second; unready >= delay {
		t.Errorf("it takes %v to be found unready, and after %v it takes no more requests", unready, delay)
	}
	if ready.HTTPGet.Path != "/readyz" || container.LivenessProbe.HTTPGet.Path != "/healthz" {
		t.Error("the probes ask for the wrong paths")
	}
	port := container.Ports[0]
	if env["HTTP_ADDR"] != ":8080" || port.ContainerPort != 8080 {
		t.Errorf("it listens on %s, its port is %d", env["HTTP_ADDR"], port.ContainerPort)
	}

	pod := labels.Set(d.Spec.Template.Labels)
	for what, selector := range map[string]*meta.LabelSelector{
		"Deployment": d.Spec.Selector, "PodDisruptionBudget": c.budgets[name].Spec.Selector, "NetworkPolicy": ptr(c.policies[name].Spec.PodSelector),
		"Service":         {MatchLabels: c.services[name].Spec.Selector},
		"topology spread": d.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector,
	} {
		s, err := meta.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(pod) {
			t.Errorf("the selector of the %s is for other pods: %v", what, selector)
		}
	}
	service := c.services[name]
	if service.Spec.Ports[0].TargetPort.StrVal != port.Name {
		t.Error("the Service leads to another port")
	}
	monitor := c.monitors[name]
	s, err := meta.LabelSelectorAsSelector(&monitor.Spec.Selector)
	if err != nil || !s.Matches(labels.Set(service.Labels)) || monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Error("the ServiceMonitor does not find the Service")
	}
	if budget := c.budgets[name].Spec.MaxUnavailable; budget.IntValue() >= int(*d.Spec.Replicas) {
		t.Errorf("draining may take %s of %d", budget, *d.Spec.Replicas)
	}
}

func TestCronJobIsWhatKubernetesTakes(t *testing.T) {
	t.Parallel()
	c := kustomize(t, nil, "- ../base # or ../cronjob", "- ../cronjob")
	if len(c.deployments) != 0 || len(c.services) != 0 {
		t.Error("the daemon is there too")
	}
	job := c.cronJobs[name].Spec
	pod := job.JobTemplate.Spec.Template
	container := checkPod(t, c, pod.Spec)
	if env := checkPodSettings(t, c, container); env["FLEET"] != "" {
		t.Error("FLEET is not for it")
	}
	if container.Args[0] != "sync" || job.ConcurrencyPolicy != batch.ForbidConcurrent || pod.Spec.RestartPolicy != core.RestartPolicyNever {
		t.Errorf("%v, %s, %s", container.Args, job.ConcurrencyPolicy, pod.Spec.RestartPolicy)
	}
	if _, err := time.LoadLocation(*job.TimeZone); err != nil {
		t.Error(err)
	}
	s, err := meta.LabelSelectorAsSelector(ptr(c.policies[name].Spec.PodSelector))
	if err != nil || s.Empty() || !s.Matches(labels.Set(pod.Labels)) {
		t.Error("the NetworkPolicy is for other pods")
	}
}

// TestRedisOfAnyKindIsReachedByTLS: the component, what its head says of the settings, and the
// network policies.
func TestRedisOfAnyKindIsReachedByTLS(t *testing.T) {
	t.Parallel()
	ca := redistest.NewCA(t)
	cert, key := ca.Issue("syncer")
	files := make(map[string]string)
	for name, path := range map[string]string{"ca.crt": ca.File, "tls.crt": cert, "tls.key": key} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(b)
	}
	said := regexp.MustCompile(`(?m)^#   (REDIS_[A-Z]+_FILE=.*\n)`).FindAllStringSubmatch(read(t, "kubernetes/components/redis-tls/kustomization.yaml"), -1)
	if len(said) != 3 {
		t.Fatalf("the component's head says %v", said)
	}
	for mode, url := range map[string]string{
		"single":   "rediss://redis:6379/0",
		"sentinel": "rediss://redis:26379/0?master_name=mymaster",
		"cluster":  "rediss://redis:6379",
	} {
		files["secrets/redis_url"] = url
		files["settings.env"] = strings.Replace(read(t, "kubernetes/example/settings.env"), "REDIS_MODE=single", "REDIS_MODE="+mode, 1)
		for _, line := range said {
			files["settings.env"] += line[1]
		}
		for _, base := range []string{"- ../base # or ../cronjob", "- ../cronjob"} {
			c := kustomize(t, files, "- ../base # or ../cronjob", base, "#components:", "components:", "#  - ../components/redis-tls", "  - ../components/redis-tls",
				"secretGenerator:\n", "secretGenerator:\n  - name: alimtalk-syncer-redis-tls\n    files: [ca.crt, tls.crt, tls.key]\n")
			pod := c.deployments[name].Spec.Template.Spec
			if len(pod.Containers) == 0 {
				pod = c.cronJobs[name].Spec.JobTemplate.Spec.Template.Spec
			}
			container := checkPod(t, c, pod)
			if env := checkPodSettings(t, c, container); env["REDIS_MODE"] != mode {
				t.Errorf("%s: REDIS_MODE is %s", mode, env["REDIS_MODE"])
			}
			if !slices.ContainsFunc(container.VolumeMounts, func(m core.VolumeMount) bool { return strings.HasPrefix(said[0][1], "REDIS_CA_FILE="+m.MountPath+"/") }) {
				t.Errorf("%s: the files are not mounted where they are said to be: %v", base, container.VolumeMounts)
			}
			open := false
			for _, out := range c.policies[name].Spec.Egress {
				for _, port := range out.Ports {
					open = open || len(out.To) == 1 && out.To[0].PodSelector != nil && strings.Contains(url, ":"+port.Port.String())
				}
			}
			if !open {
				t.Errorf("%s, %s: no way out to %s", base, mode, url)
			}
		}
	}
}

// checkPod holds a pod to what hardening asks for, and returns its container.
func checkPod(t *testing.T, c cluster, p core.PodSpec) core.Container {
	t.Helper()
	s, container := p.SecurityContext, p.Containers[0]
	if !*s.RunAsNonRoot || *s.RunAsUser != 65532 || *s.RunAsGroup != 65532 || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the pod's security context: %v", s)
	}
	k := container.SecurityContext
	if *k.AllowPrivilegeEscalation || !*k.ReadOnlyRootFilesystem || len(k.Capabilities.Drop) != 1 || k.Capabilities.Drop[0] != "ALL" {
		t.Errorf("the container's security context: %v", k)
	}
	if container.Resources.Limits.Memory().IsZero() || container.Resources.Requests.Cpu().IsZero() {
		t.Error("no limits or requests")
	}
	if _, found := c.accounts[p.ServiceAccountName]; !found || *p.AutomountServiceAccountToken || *p.EnableServiceLinks {
		t.Error("service account, its token, or service links")
	}
	if container.Image != "registry.example/alimtalk-syncer:1.0.0" {
		t.Errorf("the image is %s", container.Image)
	}
	volumes := make(map[string]core.Volume)
	for _, v := range p.Volumes {
		volumes[v.Name] = v
		if _, found := c.secrets[v.Secret.SecretName]; !found {
			t.Errorf("volume %s: there is no Secret %s", v.Name, v.Secret.SecretName)
		}
		if mode := *v.Secret.DefaultMode; mode != 0o440 {
			t.Errorf("volume %s: mode %o", v.Name, mode)
		}
	}
	for _, m := range container.VolumeMounts {
		if _, found := volumes[m.Name]; !found || !m.ReadOnly || m.SubPath != "" {
			t.Errorf("mount %s", m.Name)
		}
	}
	return container
}

// checkPodSettings holds a container's environment against the binary, with the Secrets' files
// where it mounts them, and returns it.
func checkPodSettings(t *testing.T, c cluster, container core.Container) map[string]string {
	t.Helper()
	env := make(map[string]string)
	for _, from := range container.EnvFrom {
		for k, v := range c.configMaps[from.ConfigMapRef.Name].Data {
			env[k] = v
		}
	}
	for _, e := range container.Env {
		env[e.Name] = e.Value
	}
	if len(env) < 9 {
		t.Errorf("settings are missing: %v", env)
	}
	files := make(map[string]string)
	for secretName, secret := range c.secrets {
		content := make(map[string]string)
		for k, v := range secret.Data {
			content[k] = string(v)
		}
		path := "/etc/syncer/secrets/"
		switch {
		case strings.HasSuffix(secretName, "-hospitals"):
			path = "/etc/syncer/hospitals/"
		case strings.HasPrefix(secretName, name+"-redis-tls"):
			path = "/etc/syncer/redis/"
		}
		files[path] = write(t, content) + "/"
	}
	checkSettings(t, env, files)
	return env
}

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func ptr[T any](v T) *T { return &v }
