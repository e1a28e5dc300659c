"""Names of months, in English and in other languages that are written in Latin letters."""

from __future__ import annotations

import unicodedata

from crowdppl.data.table.spellings import edits

# The months in order, each with its names and abbreviations in other languages, without accents. Beginnings of other words are no
# months: marraskuu is November in Finnish.
_NAMES = {
    "january": "janner janvier janv enero ene janeiro gennaio gen gener ianuarie ian januari jaanuar janvaris",
    "february": "feber fevrier fevr febrero fevereiro fev febbraio febrer februarie februari veebruar februaris",
    "march": "marz mrz mars marzo marco martie maart mrt marts maret mac marzec marca marec marcius mart machi",
    "april": "avril avr abril abr aprile aprilie aprilis aprill aprili",
    "may": "mai mayo maio maggio mag maig mei maj maja majus maijs mayis",
    "june": "juni juin junio junho giugno giu juny iunie iun junij junius juuni junijs",
    "july": "juli juillet juil julio julho luglio lug juliol iulie iul julai julij julius juuli julijs",
    "august": "aout agosto ago agost augustus augusti agust agustus agu ogos avgust augusztus augusts agustos agosti",
    "september": "septembre septiembre setiembre setembro set settembre setembre septembrie szeptember septembris septemba",
    "october": "oktober okt octobre octubre outubro out ottobre ott octombrie oktoober oktobris oktoba",
    "november": "novembre noviembre novembro noiembrie noi novembris novemba",
    "december": "dezember dez decembre diciembre dic dezembro dicembre desembre decembrie desember des disember detsember "
    "decembris desemba",
}
MONTHS = tuple(_NAMES)
_OTHERS = {name: number for number, names in enumerate(_NAMES.values(), 1) for name in names.split()}
# Letters of the shortest abbreviation, and of the shortest name with a typing error.
_FEWEST, _FEWEST_WITH_ERROR = 3, 5


def month_by_name(name: str) -> int:
    """Return the number of a month by its name, 0 for other words.

    English names may be shortened, or have one typing error behind their first three letters. Accents and capitals do not matter.
    """
    folded = name.casefold().replace("\u0131", "i")
    word = "".join(letter for letter in unicodedata.normalize("NFD", folded) if not unicodedata.combining(letter))
    if len(word) < _FEWEST:
        return 0
    shortened = next((number for number, month in enumerate(MONTHS, 1) if month.startswith(word)), 0)
    if shortened or word in _OTHERS:
        return shortened or _OTHERS[word]
    if len(word) < _FEWEST_WITH_ERROR:
        return 0
    near = (
        number for number, month in enumerate(MONTHS, 1) if month[:_FEWEST] == word[:_FEWEST] and edits(word, month) < 2
    )
    return next(near, 0)
