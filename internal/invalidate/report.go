package invalidate

import (
	"time"

	"alimtalk-syncer/internal/order"
	"alimtalk-syncer/internal/templates"
)

// Report is what a reading of one hospital has come to, as HTTP and `sync --json` show it.
type Report struct {
	HospitalID  string   `json:"hospitalId"`
	OK          bool     `json:"ok"`              // the list was read to its end and Redis obeyed
	Error       string   `json:"error,omitempty"` // for the operator, without secrets
	Complete    bool     `json:"complete"`        // the list was read to its end
	Listed      int      `json:"listed"`          // rows
	Compared    int      `json:"compared"`        // entries found
	Skipped     int      `json:"skipped"`         // rows in skipped states
	BadRows     int      `json:"badRows"`         // rows that could not be read
	WrongType   int      `json:"wrongType"`       // keys that hold another type
	DryRun      bool     `json:"dryRun"`
	DurationMS  int64    `json:"durationMs"`
	Invalidated []Change `json:"invalidated"` // what was deleted, or would have been in a dry run; never null
}

// Reading is one reading of a hospital: its summaries and their comparison with Redis.
type Reading struct {
	List     templates.List
	Report   Report
	ListErr  error // why the list is not complete
	Unread   bool  // nothing was listed: the first page failed
	CacheErr error // Redis did not confirm: not, or not wholly, compared

	began time.Time
	found order.Found // in the cache, where the report is ok
}

// allUnreadableText is the Error of a report that is ok all the same.
const allUnreadableText = "none of the cached entries can be read, so nothing was deleted: are CACHE_KEY_FORMAT and CACHE_VALUE_FORMAT right?"

// sum fills in what the errors mean.
func (r *Reading) sum(plan Plan) {
	r.Report.OK = r.ListErr == nil && r.CacheErr == nil
	r.Report.Complete = r.List.Complete && r.ListErr == nil
	r.Report.Listed, r.Report.BadRows = r.List.Listed, r.List.BadRows
	r.Report.Compared, r.Report.Skipped, r.Report.WrongType = plan.Compared, plan.Skipped, plan.WrongType
	switch {
	case r.ListErr != nil:
		r.Report.Error = r.ListErr.Error()
	case r.CacheErr != nil:
		r.Report.Error = r.CacheErr.Error()
	case plan.AllUnreadable:
		r.Report.Error = allUnreadableText
	}
	if r.Report.Invalidated == nil {
		r.Report.Invalidated = []Change{}
	}
}
