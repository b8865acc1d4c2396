package fencemodel

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The code sends what the model has, and nothing else. Where this fails, the protocol has
// changed: change the model first, and see whether the promises hold.

func TestEveryStepAtRedisHasItsCommands(t *testing.T) {
	for _, name := range opNames[1:] {
		if name != opNames[opSet] && commands[name] == nil {
			t.Errorf("the step %s has no commands", name)
		}
	}
}

func TestEveryScriptIsAStepOfTheModel(t *testing.T) {
	files, err := filepath.Glob("../lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts found:", err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		got := luaCommands(t, name, string(source))
		if want := slices.Sorted(slices.Values(commands[name])); !slices.Equal(got, want) {
			t.Errorf("%s.lua has %q, its step in the model %q", name, got, want)
		}
	}
}

var (
	luaAny  = regexp.MustCompile(`\bredis\.`)
	luaCall = regexp.MustCompile(`\bredis\.p?call\('([A-Z]+)', (KEYS\[(\d)\]|key)((?:, [^,()]+)*)\)`)
	luaFlag = regexp.MustCompile(`'([A-Z]+)'`)
	luaKeys = regexp.MustCompile(`(?m)^-- KEYS: (.*)$`)
)

// luaCommands reads a script's commands, with the keys named as its head comment names them.
func luaCommands(t *testing.T, name, source string) []string {
	head := luaKeys.FindStringSubmatch(source)
	if head == nil {
		t.Fatalf("%s.lua does not say what its KEYS are", name)
	}
	keys := map[string]string{"key": "entry"} // of a loop over entries
	for _, field := range strings.Split(head[1], ", ") {
		if number, what, ok := strings.Cut(field, " "); ok {
			keys["KEYS["+number+"]"] = what
		}
	}
	source = strings.ReplaceAll(source, "redis.call('TIME')", "") // has no key
	calls := luaCall.FindAllStringSubmatch(source, -1)
	if n := len(luaAny.FindAllString(source, -1)); n != len(calls) {
		t.Errorf("%s.lua: %d of %d uses of redis. are no commands with a name and a key of KEYS in plain sight", name, n-len(calls), n)
	}
	var found []string
	for _, call := range calls {
		command := call[1] + " " + keys[call[2]]
		for _, flag := range luaFlag.FindAllStringSubmatch(call[4], -1) {
			command += " " + flag[1]
		}
		found = append(found, command)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestTheCodeSendsOnlyTheModelsCommands(t *testing.T) {
	want := map[string][]string{ // by function of package templates
		"Get":        commands["get"], // in a Cluster
		"send":       {"GET"},         // of readers, commands["get"]: Cache.Get hands it entries' keys only
		"look":       {"look.lua"},
		"Store":      {"store.lua"},
		"readPart":   slices.Concat(commands["fence"], commands["fence"], commands["read"], commands["read"]), // in a Cluster on their own
		"deletePart": {"delete_if.lua"},
		"Forget":     {"forget.lua"},
		"Ping":       slices.Concat(commands["ping"], commands["ping"]), // in a Cluster to each primary

		"Renew":       {"renew.lua"},
		"Release":     {"release.lua"},
		"note":        {"note.lua"},
		"correctPart": {"unnote.lua"},
		"Holdings":    commands["holdings"],
	}
	got := make(map[string][]string)
	const claims, limit = "../../../internal/fleet/claims.go: ", "../../../internal/fleet/limit.go: " // touch neither entries nor fences
	want[claims+"Claim"], want[claims+"Looked"] = []string{"claim.lua"}, []string{"ZRANGEWITHSCORES"}
	want[claims+"Ended"] = []string{"ended.lua"}
	want[limit+"EvalSha"], want[limit+"Eval"], want[limit+"Del"] = []string{"EVALSHA"}, []string{"EVAL"}, []string{"DEL"}
	root := "../../.."
	want[root+"/cmd/syncer/app.go: measure"] = commands["ping"] // through Cache.Ping
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil && path != root || entry.Name() == "redistest" {
				return filepath.SkipDir // another module, and the tests' own client
			}
			return nil
		case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		for function, sent := range goCommands(t, path) {
			if filepath.ToSlash(filepath.Dir(path)) != root+"/internal/templates" {
				function = path + ": " + function
			}
			got[function] = sent
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the code sends, by function, %q\nthe model has %q", got, want)
	}
}

// goCommands reads what each function of a file that imports go-redis sends: the calls of
// methods that are named as a client's commands and take a context, and the scripts it runs.
func goCommands(t *testing.T, path string) map[string][]string {
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(gotoken.NewFileSet(), path, source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"github.com/redis/go-redis/v9"` }) {
		return nil
	}
	text := func(n ast.Node) string { return string(source[n.Pos()-file.FileStart : n.End()-file.FileStart]) }
	client := reflect.TypeFor[redis.Cmdable]()
	sent := make(map[string][]string)
	for _, decl := range file.Decls {
		function, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		ast.Inspect(function, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 || !strings.Contains(strings.ToLower(text(call.Args[0])), "ctx") && !strings.Contains(text(call.Args[0]), "ontext") {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			command := ""
			if script, ok := strings.CutSuffix(text(method.X), "Script"); ok {
				command = scriptFile(script)
			} else if _, ok := client.MethodByName(method.Sel.Name); ok || method.Sel.Name == "NewRawWriteToCmd" {
				if command = strings.ToUpper(method.Sel.Name); !ok {
					command = strings.ToUpper(strings.Trim(text(call.Args[2]), `"`))
				}
				switch args := text(call); {
				case strings.Contains(args, ".FenceKey("):
					command += " fence"
				case strings.Contains(args, ".Key("):
					command += " entry"
				}
			}
			if command != "" {
				sent[function.Name.Name] = append(sent[function.Name.Name], command)
			}
			return true
		})
	}
	return sent
}

// scriptFile returns the file of a script's variable: deleteIf is delete_if.lua.
func scriptFile(variable string) string {
	name := regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(variable, func(s string) string { return "_" + strings.ToLower(s) })
	return name + ".lua"
}
