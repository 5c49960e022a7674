"""What the programs are given: generators, and scripts of their own languages."""
