"""Does the code decide, and do the canonical blocks answer, as the golden vectors say?"""
