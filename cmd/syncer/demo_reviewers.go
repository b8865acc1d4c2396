package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"alimtalk-syncer/internal/sureM/simulator"
)

// step is what may become of a template in review. Chances of one state add up to 1.
type step struct {
	to, comment string
	chance      float64
}

var steps = map[string][]step{
	"REGISTERED": {{"REQUESTED", "검수를 요청합니다.", 1}},
	"REQUESTED": {
		{"APPROVED", "승인되었습니다.", .6},
		{"REJECTED", "변수 #{주의사항}에 들어갈 내용의 예시를 적어 주세요.", .2},
		{"REGISTERED", "고객사 요청으로 검수를 취소합니다.", .1},
		{"DELETED", "중복된 템플릿으로 삭제합니다.", .1},
	},
	"REJECTED": {{"REQUESTED", "예시를 추가하여 다시 요청합니다.", 1}},
	"APPROVED": {
		{"REQUESTED", "승인을 되돌리고 다시 검토합니다.", .7},
		{"DELETED", "장기간 사용하지 않아 삭제합니다.", .3},
	},
	"DELETED": {{"REGISTERED", "삭제를 취소하였습니다.", 1}},
}

// review is the reviewers of one clinic's templates: soon they approve the first, then they
// do something every 1.5 to 3.5 seconds until ctx ends.
func (w *demoWorld) review(ctx context.Context, c clinic, rnd *rand.Rand) {
	if !pauseFor(ctx, time.Duration(200+rnd.IntN(1000))*time.Millisecond) {
		return
	}
	_ = w.surem.SetStatus(c.senderKey, messages[0].code, "APPROVED")
	for pauseFor(ctx, time.Duration(1500+rnd.IntN(2000))*time.Millisecond) {
		code := messages[rnd.IntN(len(messages))].code
		if t, _ := w.surem.Template(c.senderKey, code); t.InspectionStatus == "APPROVED" && rnd.IntN(3) > 0 {
			// What has been approved mostly stays so: look for another one.
			code = messages[rnd.IntN(len(messages))].code
		}
		_ = w.surem.Edit(c.senderKey, code, func(t *simulator.Template) { advance(t, rnd.Float64()) }) // a visitor may have removed it
	}
}

// advance takes a template one step further; draw is in [0, 1).
func advance(t *simulator.Template, draw float64) {
	for _, s := range steps[t.InspectionStatus] {
		if draw -= s.chance; draw < 0 {
			t.InspectionStatus = s.to
			t.Comments = append(slices.Clone(t.Comments), simulator.Comment{UserName: "검수담당", Content: s.comment, CreatedAt: simulator.Timestamp(time.Now())})
			return
		}
	}
}

// tooLasting are faults after which the daemon keeps away from SureM for a minute and more,
// as it should: nothing to look at in a demo.
var tooLasting = []string{"limit-day", "token-dead"}

// misbehave lays a random fault on SureM every two seconds until ctx ends, and tells of it.
func (w *demoWorld) misbehave(ctx context.Context, rnd *rand.Rand, tell func(hospital string, f simulator.Fault, k simulator.Kind)) {
	defer func() { _ = w.surem.SetFaults() }()
	for pauseFor(ctx, 2*time.Second) {
		k := simulator.Kinds[rnd.IntN(len(simulator.Kinds))]
		if slices.Contains(tooLasting, k.Name) {
			continue
		}
		f := simulator.Fault{Name: k.Name, Operation: k.Operations[rnd.IntN(len(k.Operations))], Times: 1 + rnd.IntN(4)}
		hospital := ""
		if f.Operation == simulator.Login {
			w.surem.RevokeTokens("")
		} else {
			c := clinics[rnd.IntN(len(clinics))]
			f.SenderKey, hospital = c.senderKey, c.id
		}
		if f.Operation == simulator.Login || strings.HasPrefix(k.Name, "refused-") || strings.HasPrefix(k.Name, "status-403") {
			f.Times = 1 // a token refused twice, and the daemon makes no login for a minute
		}
		if err := w.surem.SetFaults(f); err == nil {
			tell(hospital, f, k)
		}
	}
}

// pauseFor waits, and says whether ctx goes on.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
