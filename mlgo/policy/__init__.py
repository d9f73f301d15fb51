"""From a compiler's question to an answer: features, network, fixed advisors, policies on disk."""
