from coffer.cli import main

main()
