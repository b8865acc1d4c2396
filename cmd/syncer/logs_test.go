package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logged are the events and field keys that the program's sources log.
type logged struct {
	events, keys map[string]bool
}

// fieldMethods are zerolog's that take a key and a value.
var fieldMethods = []string{"Str", "Strs", "Int", "Int64", "Uint64", "Float64", "Bool", "Dur", "Time", "Bytes", "Any", "Interface", "AnErr"}

// add collects the literals of one file: what goes to Msg, what Event constants say, the keys.
func (l logged) add(t *testing.T, path string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			method, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch {
			case method.Sel.Name == "Msgf", method.Sel.Name == "Send":
				t.Errorf("%s logs without a constant event name", path)
			case method.Sel.Name == "Msg" && len(n.Args) == 1:
				if _, built := n.Args[0].(*ast.BinaryExpr); built {
					t.Errorf("%s builds an event name", path)
				}
				note(l.events, n.Args[0])
			case len(n.Args) == 2 && slices.Contains(fieldMethods, method.Sel.Name):
				note(l.keys, n.Args[0])
			case len(n.Args) == 1 && method.Sel.Name == "Err" && !isContext(method.X):
				l.keys["error"] = true
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if strings.HasPrefix(name.Name, "Event") && i < len(n.Values) {
					note(l.events, n.Values[i])
				}
			}
		}
		return true
	})
}

func isContext(e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == "ctx"
}

func note(set map[string]bool, e ast.Expr) {
	if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		if s, err := strconv.Unquote(literal.Value); err == nil {
			set[s] = true
		}
	}
}

func TestTheREADMEListsEveryEventAndItsFields(t *testing.T) {
	l := logged{map[string]bool{}, map[string]bool{}}
	for _, root := range []string{".", "../../internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && slices.Contains([]string{"simulator", "e2e", "redistest", "testdata"}, d.Name()):
				return filepath.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				l.add(t, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Logs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			listed[name[1]] = true
		}
	}
	if events := slices.Sorted(maps.Keys(l.events)); !slices.Equal(events, slices.Sorted(maps.Keys(listed))) {
		t.Errorf("the sources log\n%q\nthe README lists\n%q", events, slices.Sorted(maps.Keys(listed)))
	}
	for key := range l.keys {
		if !regexp.MustCompile(`\b` + key + `\b`).MatchString(section) {
			t.Errorf("the README's section on logs does not name the field %s", key)
		}
	}
}
