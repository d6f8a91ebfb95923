"""x"""
from stenolog.importers import Importer

SWE_AGENT = Importer("swe-agent", "a SWE-agent trajectory")
