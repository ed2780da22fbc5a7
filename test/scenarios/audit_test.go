package scenarios

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// auditEvent is one finished request, as kube-apiserver records it.
type auditEvent struct {
	AuditID   string `json:"auditID"`
	Verb      string `json:"verb"`
	URI       string `json:"requestURI"`
	UserAgent string `json:"userAgent"`
	User      struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Annotations map[string]string `json:"annotations"`
	Received    time.Time         `json:"requestReceivedTimestamp"`
}

func (a auditEvent) String() string {
	return fmt.Sprintf("%s %s by %s (%s): %d", a.Verb, a.URI, a.User.Username, a.UserAgent, a.Response.Code)
}

// byOrrery distinguishes the daemon's requests from those of kube-controller-manager, which has the same user names.
func (a auditEvent) byOrrery() bool {
	return strings.Contains(a.UserAgent, ") orrery/")
}

// denied is true for a request that no role allows. Admission responds with 403 too, for example to writes into a
// terminating namespace.
func (a auditEvent) denied() bool {
	return a.Response.Code == 401 || a.Response.Code == 403 && a.Annotations["authorization.k8s.io/decision"] != "allow"
}

// writes is true for a request that changes objects other than leases, tokens, events and reviews.
func (a auditEvent) writes() bool {
	switch a.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return false
	}
	switch a.Object.Resource {
	case "leases", "events":
		return false
	}
	return a.Object.Subresource != "token"
}

// kind is the resource as in rules, "pods" or "pods/status".
func (a auditEvent) kind() string {
	if a.Object.Subresource != "" {
		return a.Object.Resource + "/" + a.Object.Subresource
	}
	return a.Object.Resource
}

// account is the name of the controller's service account, or the whole user name of others.
func (a auditEvent) account() string {
	return strings.TrimPrefix(a.User.Username, "system:serviceaccount:kube-system:")
}

// audit returns the recorded requests that match.
func (e *env) audit(t *testing.T, match func(auditEvent) bool) (found []auditEvent) {
	t.Helper()
	file, err := os.Open(e.auditPath())
	if err != nil {
		t.Error(err)
		return nil
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var a auditEvent
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			continue // the last line may still be being written
		}
		if match(a) {
			found = append(found, a)
		}
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
	return found
}
