package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func TestThirtyReadsWithRevokedTokensCostOneLoginAndNoFailure(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		refusal *reply
	}{
		{"HTTP 401", errorCode(http.StatusUnauthorized, "A1001")},
		{"HTTP 403 as HTML", &reply{status: http.StatusForbidden, body: "<html>forbidden</html>", header: map[string]string{"Content-Type": "text/html"}}},
		{"code under 200", errorCode(http.StatusOK, "A1006")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const n = 30
			var ids []string
			for i := range n {
				ids = append(ids, fmt.Sprintf("H%03d", i+1))
			}
			w := newWorld(t, ids...)
			one := template{code: "T1", status: "APPROVED"}
			for _, id := range ids {
				w.offer(id, one)
			}
			w.surem.refuseWith(c.refusal)
			d := w.start()
			w.surem.awaitReadings(senderKey("H030"), 1)
			if n := w.surem.logins(); n != 1 {
				t.Fatalf("%d logins for the first passes, want one", n)
			}
			w.surem.revokeTokens()
			for i, a := range together(n, func(i int) answer { return d.read(ids[i], "T1") }) {
				if a.document(t, one); t.Failed() {
					t.Fatalf("hospital %d", i)
				}
			}
			w.surem.awaitReadings(senderKey("H001"), 1)
			if n := w.surem.logins(); n != 2 {
				t.Errorf("%d logins, want one more", n)
			}
			if v := d.metric(`syncer_hospitals_failing`); v != 0 {
				t.Errorf("%v hospitals failing", v)
			}
		})
	}
}

func TestRefusalsThatArriveTogetherStillCostOneLogin(t *testing.T) {
	t.Parallel()
	const n = 30
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("H%03d", i+1))
	}
	w := newWorld(t, ids...)
	w.quiet()
	one := template{code: "T1", status: "APPROVED"}
	for _, id := range ids {
		w.offer(id, one)
	}
	d := w.start()
	d.read("H001", "T1").document(t, one)
	d.delete("H001", "T1").want(t, http.StatusNoContent)
	w.surem.revokeTokens()
	var gates []*gate
	for _, id := range ids {
		gates = append(gates, w.surem.hold(detail, senderKey(id), 1))
	}
	all := make(chan []answer, 1)
	go func() { all <- together(n, func(i int) answer { return d.read(ids[i], "T1") }) }()
	for _, g := range gates {
		g.await(1)
	}
	var wg sync.WaitGroup
	for _, g := range gates {
		wg.Go(g.release)
	}
	wg.Wait()
	for _, a := range receive(t, soon, "30 answers", all) {
		a.document(t, one)
	}
	if n := w.surem.logins(); n != 2 {
		t.Errorf("%d logins, want two in all", n)
	}
}

func TestNoSecretIsSeenWhateverHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "H001", "H002")
	// A vendor that quotes what it was sent.
	w.surem.each(func(c call) *reply {
		switch {
		case c.op == summaries && c.sender == senderKey("H002"):
			return &reply{status: http.StatusBadRequest, body: `{"code":"E1","message":"bad senderKey ` + c.sender + ` secret ` + secretKey + `"}`}
		case c.op == detail && c.sender == senderKey("H002"):
			return &reply{status: http.StatusBadGateway, body: "<html>" + c.sender + " " + secretKey + " access-token-1-clinic-6b1f</html>"}
		}
		return nil
	})
	d := w.start("LOG_LEVEL=debug", "SUREM_MAX_RETRIES=0")
	w.surem.awaitReadings(senderKey("H002"), 1)
	seen := d.read("H001", "T2").body + d.read("H002", "T1").body + d.sync("H002").body + d.get(listPath("H002")).body + d.get("/readyz").body + d.get("/metrics").body
	for _, s := range w.hidden() {
		if strings.Contains(seen, s) {
			t.Errorf("an answer shows %q: %s", s, seen)
		}
	}
	// The daemon's own end looks for them in its log.
}
