package order

import "time"

// Holding is what a hospital is known to hold in the cache: until when the last entry of each
// kind lives, in Unix milliseconds; 0 = none is known. It errs on the long side: an entry may
// go earlier, and a look then says so.
type Holding struct {
	Hot  int64 // an entry in a state that a reviewer is about to change
	Cold int64 // another one
}

// Heat returns the heat of a hospital that holds this.
func (k Holding) Heat() Heat {
	switch {
	case k.Hot != 0:
		return Hot
	case k.Cold != 0:
		return Cold
	default:
		return None
	}
}

// Found is what a look has seen to be cached, after it deleted what was stale.
type Found struct {
	Hot, Cold bool
	More      bool // it did not look at every entry that there may be: rows in skipped states
}

// After returns what is known after a look, at now. An entry that is there lives for life at
// most. Where k says the same for long enough it stays as it is, so that what has not changed
// need not be written again. What a look could not see keeps a hospital that was known to
// hold something in play.
func (k Holding) After(found Found, now time.Time, life time.Duration) Holding {
	until := func(known int64, found bool) int64 {
		switch {
		case !found:
			return 0
		case known > now.Add(life/2).UnixMilli():
			return known
		default:
			return now.Add(life).UnixMilli()
		}
	}
	after := Holding{Hot: until(k.Hot, found.Hot), Cold: until(k.Cold, found.Cold)}
	if found.More && !found.Cold {
		after.Cold = max(k.Hot, k.Cold)
	}
	return after
}
