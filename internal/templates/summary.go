package templates

// Summary is one row of SureM's list of a sender key's templates.
type Summary struct {
	Code    string // passes CheckCode
	Name    string
	Status  Status // never empty
	Dormant bool
	Raw     string // the row as SureM sent it, valid JSON
}

// List is what one reading of a sender key's summaries has shown.
type List struct {
	Pages     int       // that were read; 0 = nothing is known
	Summaries []Summary // in SureM's order, duplicates included
	Listed    int       // rows, bad ones included; those whose code stood on an earlier page not
	BadRows   int       // rows that could not be read, and were skipped
	Complete  bool      // SureM said, or showed, that there is no more
}
