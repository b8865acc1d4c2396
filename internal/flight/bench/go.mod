module alimtalk-syncer/internal/flight/bench

go 1.26.0

require (
	alimtalk-syncer v0.0.0
	github.com/viccon/sturdyc v1.1.5
	golang.org/x/sync v0.25.0
	resenje.org/singleflight v0.4.3
)

require github.com/cespare/xxhash/v2 v2.3.0 // indirect

replace alimtalk-syncer => ../../..
