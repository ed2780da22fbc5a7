package monitoring

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Reference is a metric that an expression reads, and the labels by which it is selected.
type Reference struct {
	Metric string
	Labels []string
}

// Expression is what was read from an expression in Prometheus' language.
type Expression struct {
	Metrics []Reference
	Grouped []string // labels in by, without, on, ignoring and group_left
}

var (
	token = regexp.MustCompile("^(\\s+|#[^\\n]*|\"(?:[^\"\\\\]|\\\\.)*\"|'(?:[^'\\\\]|\\\\.)*'|`[^`]*`|" + // space, comments, strings
		`\$?[A-Za-z_:][A-Za-z0-9_:]*|` + // names, and variables of the dashboard
		`[0-9][0-9A-Za-z.]*|` + // numbers and durations
		`=~|!~|!=|==|<=|>=|[-+*/%^<>=(){}\[\],@])`)
	name      = regexp.MustCompile(`^[A-Za-z_:]`)
	grouping  = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operators = []string{"and", "or", "unless", "bool", "offset", "inf", "nan"}
)

// Parse reads an expression. It knows the language as far as it takes to tell metrics from functions, labels and words,
// and reports what it does not know.
func Parse(text string) (Expression, error) {
	var e Expression
	tokens, err := split(text)
	if err != nil {
		return e, err
	}
	depth := 0
	for i := 0; i < len(tokens); i++ {
		switch t := tokens[i]; {
		case t == "(":
			depth++
		case t == ")":
			depth--
		case t == "[":
			if i, err = skip(tokens, i, "]"); err != nil {
				return e, err
			}
		case t == "{":
			return e, fmt.Errorf("a selector without a metric in %q", text)
		case slices.Contains(grouping, strings.ToLower(t)):
			if i+1 >= len(tokens) || tokens[i+1] != "(" {
				continue // group_left without labels
			}
			from := i + 2
			if i, err = skip(tokens, i+1, ")"); err != nil {
				return e, err
			}
			e.Grouped = append(e.Grouped, slices.DeleteFunc(slices.Clone(tokens[from:i]), func(s string) bool { return s == "," })...)
		case !name.MatchString(t) || slices.Contains(operators, strings.ToLower(t)):
		case i+1 < len(tokens) && (tokens[i+1] == "(" || slices.Contains(grouping[:2], strings.ToLower(tokens[i+1]))):
			// a function or an aggregation
		default:
			r := Reference{Metric: t}
			if i+1 < len(tokens) && tokens[i+1] == "{" {
				from := i + 2
				if i, err = skip(tokens, i+1, "}"); err != nil {
					return e, err
				}
				if r.Labels, err = matchers(tokens[from:i]); err != nil {
					return e, err
				}
			}
			e.Metrics = append(e.Metrics, r)
		}
		if depth < 0 {
			break
		}
	}
	if depth != 0 {
		return e, fmt.Errorf("parentheses do not match in %q", text)
	}
	return e, nil
}

func split(text string) ([]string, error) {
	var tokens []string
	for rest := text; rest != ""; {
		t := token.FindString(rest)
		if t == "" {
			return nil, fmt.Errorf("cannot read %q in %q", rest, text)
		}
		rest = rest[len(t):]
		if strings.TrimSpace(t) != "" && t[0] != '#' {
			tokens = append(tokens, t)
		}
	}
	return tokens, nil
}

// skip returns where the bracket at i is closed.
func skip(tokens []string, i int, closed string) (int, error) {
	for end := i + 1; end < len(tokens); end++ {
		if tokens[end] == closed {
			return end, nil
		}
	}
	return 0, fmt.Errorf("%s is not closed by %s", tokens[i], closed)
}

// matchers returns the labels of what stands in braces.
func matchers(tokens []string) ([]string, error) {
	var labels []string
	for i := 0; i < len(tokens); i += 4 {
		ok := i+2 < len(tokens) && name.MatchString(tokens[i]) && slices.Contains([]string{"=", "=~", "!=", "!~"}, tokens[i+1]) &&
			strings.ContainsAny(tokens[i+2][:1], "\"'`") && (i+3 == len(tokens) || tokens[i+3] == ",")
		if !ok {
			return nil, fmt.Errorf("cannot read the matchers {%s}", strings.Join(tokens, ""))
		}
		labels = append(labels, tokens[i])
	}
	return labels, nil
}
