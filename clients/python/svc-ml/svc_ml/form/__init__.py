"""What people hand to a call, in the form in which it is stored: pictures, sound, histograms, tables, and the like. Nothing is sent here."""
