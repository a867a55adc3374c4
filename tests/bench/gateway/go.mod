module stoker.dev/bench

go 1.24
