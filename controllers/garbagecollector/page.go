package garbagecollector

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"
)

// serveGraph answers with the ownership graph in the DOT language, or with the part of it that is connected with the
// objects whose UIDs the query names (?uid=...&uid=...).
func (o *options) serveGraph(w http.ResponseWriter, req *http.Request) {
	g := o.graph.Load()
	if g == nil {
		http.Error(w, "the garbage collector does not run in this process", http.StatusNotFound)
		return
	}
	var uids []types.UID
	for _, uid := range req.URL.Query()["uid"] {
		uids = append(uids, types.UID(uid))
	}
	w.Header().Set("Content-Type", "text/vnd.graphviz")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = g.WriteDOT(w, uids...) // the reader has gone
}
