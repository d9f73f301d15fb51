"""The .NET JIT under advice, method by method: driving SuperPMI, its replay tool."""
