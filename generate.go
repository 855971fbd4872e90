package ptxrun

//go:generate go run ./internal/ptxgen
