package surem

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	stduritemplate "github.com/std-uritemplate/std-uritemplate/go/v2"
)

// Path is the path and query of one of SureM's endpoints: an RFC 6570 template whose
// variables are known to exist. The zero Path is not usable.
type Path struct {
	template string
	vars     []string // in the order they stand, each once
}

// ParsePath reads a SUREM_SUMMARY_PATH or SUREM_DETAIL_PATH. It begins with exactly one
// "/", holds all the required variables and none but the allowed ones. Refused too is
// what would send a value other than escaped exactly once: the operators "+" and "#",
// prefixes, a fragment, a second "?".
func ParsePath(template string, required, allowed []string) (Path, error) {
	if !strings.HasPrefix(template, "/") || strings.HasPrefix(template, "//") {
		return Path{}, errors.New("must begin with exactly one /")
	}
	p := Path{template: template}
	query := false // a "?" has been seen
	for rest := template; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		if err := checkLiteral(literal); err != nil {
			return Path{}, err
		}
		marks := strings.Count(literal, "?")
		if found {
			var expression string
			expression, rest, found = strings.Cut(after, "}")
			if !found {
				return Path{}, errors.New("has a { without its }")
			}
			operator, names := splitExpression(expression)
			switch operator {
			case '+', '#':
				return Path{}, fmt.Errorf("must not hold {%c…}: its values would not be escaped", operator)
			case '?':
				marks++
			case '&':
				if !query && marks == 0 {
					return Path{}, errors.New("has {&…} before any ?")
				}
			}
			if err := p.add(names, allowed); err != nil {
				return Path{}, err
			}
		} else {
			rest = ""
		}
		if marks > 1 || marks == 1 && query {
			return Path{}, errors.New("has more than one ?; use {&…} for what follows the first")
		}
		query = query || marks == 1
	}
	for _, name := range required {
		if !p.has(name) {
			return Path{}, fmt.Errorf("must hold the variable %s", name)
		}
	}
	if _, err := p.Expand(p.sample()); err != nil {
		return Path{}, err
	}
	return p, nil
}

// splitExpression takes the operator, 0 for none, off what stands between braces.
func splitExpression(expression string) (operator byte, names string) {
	if expression != "" && strings.IndexByte("+#./;?&", expression[0]) >= 0 {
		return expression[0], expression[1:]
	}
	return 0, expression
}

func (p *Path) add(names string, allowed []string) error {
	for name := range strings.SplitSeq(names, ",") {
		if !slices.Contains(allowed, name) {
			return fmt.Errorf("has the variable %q; allowed are %s", name, strings.Join(allowed, ", "))
		}
		if !p.has(name) {
			p.vars = append(p.vars, name)
		}
	}
	return nil
}

func checkLiteral(s string) error {
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`|}", c) >= 0:
			return fmt.Errorf("holds %q, which must not stand in a URL as it is", c)
		case c == '#':
			return errors.New("must not hold a fragment (#)")
		case c == '%' && !(i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2])):
			return errors.New("has a % that begins no escape")
		}
	}
	return nil
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func (p Path) has(name string) bool { return slices.Contains(p.vars, name) }

func (p Path) sample() map[string]any {
	vars := map[string]any{}
	for _, name := range p.vars {
		vars[name] = "x"
	}
	return vars
}

// Expand fills the template in. Values are strings or ints, and each comes out
// percent-escaped exactly once. A missing value, one that is not UTF-8, and one that
// would become a path step ("..") are errors, which never quote the values.
func (p Path) Expand(vars map[string]any) (string, error) {
	for _, name := range p.vars {
		value, ok := vars[name]
		if text, isText := value.(string); !ok || isText && !utf8.ValidString(text) {
			return "", fmt.Errorf("the path's variable %s has no usable value", name)
		}
	}
	expanded, err := stduritemplate.Expand(p.template, vars)
	if err != nil {
		return "", fmt.Errorf("expanding the path: %w", err)
	}
	path, _, _ := strings.Cut(expanded, "?")
	for step := range strings.SplitSeq(path, "/") {
		if step == "." || step == ".." {
			return "", errors.New("the path would hold a . or .. step")
		}
	}
	return expanded, nil
}

// String returns the template as it was given.
func (p Path) String() string { return p.template }
