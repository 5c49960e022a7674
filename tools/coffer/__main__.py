from coffer.start import main

main()
