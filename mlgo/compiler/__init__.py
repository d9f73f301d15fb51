"""One compile: finding the compiler, running it bounded, asking and answering, measuring what comes out."""
